//! The file store with several processes, and on disks that fail.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use shardwright_store::file::{FileOpenError, FileOptions, FileStore};
use shardwright_store::{
    Commit, CommitError, Expect, FaultKind, Key, Revision, ScanFrom, SessionId, Store, StoreRange,
    TrustedFolders,
};
use tempfile::TempDir;

use crate::processes::{Log, PLAY, Part, Role, TIMEOUT, block_on, lines};

fn open(folder: &Path) -> FileStore {
    FileStore::open(folder, FileOptions::default()).unwrap()
}

fn create(name: String, bytes: usize, session: Option<SessionId>) -> Commit {
    let key = Key::from(name);
    let commit = Commit::builder().expect(key.clone(), Expect::Absent);
    let commit = match session {
        Some(session) => commit.put_in_session(key, vec![7; bytes], session),
        None => commit.put(key, vec![7; bytes]),
    };
    commit.build().unwrap()
}

fn is_there(store: &FileStore, name: &str) -> bool {
    let snapshot = block_on(store.load(&[Key::from(name.to_owned())])).unwrap();
    snapshot.values[0].is_some()
}

/// Runs the role of a child process.
pub(crate) fn play(role: Role) {
    let Role { part, folder, argument, log } = role;
    match part.as_str() {
        "open and put" => {
            let store = open(&folder);
            block_on(store.commit(create(format!("by/{argument}"), 10, None))).unwrap();
            log.line("done");
        }
        "hold a session" => block_on(async {
            let store = open(&folder);
            let session = store.open_session(Duration::from_secs(3_600)).await.unwrap();
            store.commit(create("held".to_owned(), 10, Some(session.id))).await.unwrap();
            log.line("done");
            std::future::pending::<()>().await;
        }),
        "hammer" => block_on(async {
            let store = open(&folder);
            for number in 0.. {
                store.commit(create(format!("{argument}/{number}"), 300, None)).await.unwrap();
                log.line("done");
            }
        }),
        "be refused" => {
            let trusted = TrustedFolders::new(vec![folder.clone()]);
            let options = FileOptions { trusted, ..FileOptions::default() };
            let refused = FileStore::open(&folder, options);
            let Err(FileOpenError::Unwritable { folder: named, .. }) = &refused else {
                panic!("{refused:?}");
            };
            assert_eq!(*named, folder);
        }
        "fill" => fill(&open(&folder), &log),
        other => panic!("{other}"),
    }
}

#[test]
fn processes_that_start_together_create_one_store() {
    for _ in 0..5 {
        let (folder, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let folder = folder.path().join("not/yet/there");
        let start = |number| {
            let log = logs.path().join(format!("{number}"));
            Part::start("open and put", &folder, &log, number)
        };
        let mut parts: Vec<_> = (0..6).map(start).collect();
        parts.iter_mut().for_each(Part::wait);
        let store = open(&folder);
        for number in 0..6 {
            assert!(is_there(&store, &format!("by/{number}")));
        }
    }
}

#[test]
fn a_session_ends_with_its_process_before_its_ttl() {
    let (folder, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let store = open(folder.path());
    let mut part = Part::start("hold a session", folder.path(), &logs.path().join("log"), 0);
    part.wait_for_lines("done", 1);
    assert!(is_there(&store, "held"));
    let mut changes = block_on(store.watch(&StoreRange::prefix("held"), now(&store))).unwrap();
    // The session lives as long as the process.
    part.pause();
    store.check_sessions();
    part.resume();
    assert!(is_there(&store, "held"));
    let begin = Instant::now();
    part.kill();
    let set = block_on(async { tokio::time::timeout(TIMEOUT, changes.next()).await });
    assert!(set.unwrap().unwrap().changes[0].now.is_none());
    assert!(begin.elapsed() < Duration::from_secs(3_600) && !is_there(&store, "held"));
}

#[test]
fn a_session_ends_with_its_store() {
    let folder = TempDir::new().unwrap();
    let (owner, other) = (open(folder.path()), open(folder.path()));
    let session = block_on(owner.open_session(Duration::from_secs(3_600))).unwrap();
    block_on(owner.commit(create("held".to_owned(), 1, Some(session.id)))).unwrap();
    drop(owner);
    let deadline = Instant::now() + TIMEOUT;
    while is_there(&other, "held") {
        assert!(Instant::now() < deadline);
    }
    let session = block_on(other.open_session(Duration::from_secs(3_600))).unwrap();
    let before = block_on(other.commit(create("left".to_owned(), 1, Some(session.id)))).unwrap();
    drop(other);
    let again = open(folder.path());
    assert!(!is_there(&again, "left") && now(&again) > before);
    assert_eq!(fs::read_dir(folder.path().join("locks")).unwrap().count(), 4, "no owner is left");
}

fn now(store: &FileStore) -> Revision {
    block_on(store.load(&[])).unwrap().revision
}

#[test]
fn a_slow_writer_is_not_starved() {
    let (folder, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let start = |number| {
        let log = logs.path().join(format!("{number}"));
        Part::start("hammer", folder.path(), &log, number)
    };
    let mut parts: Vec<_> = (0..2).map(start).collect();
    parts.iter_mut().for_each(|part| part.wait_for_lines("done", 5));
    let store = open(folder.path());
    let count = |part: &Part| part.lines().len();
    let before: usize = parts.iter().map(count).sum();
    for number in 0..50 {
        block_on(store.commit(create(format!("slow/{number}"), 10, None))).unwrap();
    }
    // It gets 50 turns. The others get some as well, but not hundreds for each of these.
    let theirs = parts.iter().map(count).sum::<usize>() - before;
    assert!(theirs < 50 * 20, "the others had {theirs} turns");
    let already: Vec<_> = parts.iter().map(count).collect();
    for (part, already) in parts.iter_mut().zip(already) {
        part.wait_for_lines("done", already + 1);
    }
}

#[test]
fn waiting_for_other_processes_is_bounded() {
    let folder = TempDir::new().unwrap();
    let timeout = Duration::from_millis(200);
    let options = FileOptions { timeout, ..FileOptions::default() };
    let store = Arc::new(FileStore::open(folder.path(), options).unwrap());
    block_on(store.commit(create("before".to_owned(), 1, None))).unwrap();
    let tool = rusqlite::Connection::open(store.path()).unwrap();
    let turn = File::open(folder.path().join("locks/turn")).unwrap();
    // First a foreign tool locks the database, then another process holds the write lock.
    for by_tool in [true, false] {
        if by_tool {
            tool.execute_batch("BEGIN IMMEDIATE").unwrap();
        } else {
            turn.lock().unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let begin = Instant::now();
            let waiting = {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let commit = create(format!("blocked/{by_tool}"), 1, None);
                    (store.commit(commit).await, store.open_session(timeout).await)
                })
            };
            let mut ticks = 0;
            while !waiting.is_finished() {
                assert!(begin.elapsed() < TIMEOUT, "the call waits for ever");
                // The single thread of this runtime is not blocked.
                tokio::time::sleep(Duration::from_millis(2)).await;
                assert!(store.load(&[Key::from("before")]).await.unwrap().values[0].is_some());
                ticks += 1;
            }
            let (commit, session) = waiting.await.unwrap();
            let Err(CommitError::NotApplied(fault)) = commit else { panic!("{commit:?}") };
            assert_eq!(fault.kind, FaultKind::Busy, "{fault}");
            assert!(session.is_err() && begin.elapsed() >= timeout && ticks > 10, "{ticks}");
        });
        if by_tool {
            tool.execute_batch("ROLLBACK").unwrap();
        } else {
            turn.unlock().unwrap();
        }
        assert!(!is_there(&store, &format!("blocked/{by_tool}")));
        block_on(store.commit(create(format!("after/{by_tool}"), 1, None))).unwrap();
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("folder");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o555)).unwrap();
    // Root may write everywhere, so another user tries, with a program that it may read.
    let program = place.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let log = place.path().join("log");
    drop(File::create(&log).unwrap());
    fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
    let mut command = Command::new(program);
    command.args(PLAY);
    if rustix::process::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    Part::spawn(&mut command, "be refused", &folder, &log, 0).wait();
    let below = place.path().join("log/folder");
    let refused = FileStore::open(&below, FileOptions::default());
    assert!(refused.unwrap_err().to_string().contains(below.to_str().unwrap()));
}

/// Commits until the disk is full, and checks what the refusal means.
fn fill(store: &FileStore, log: &Log) {
    for number in 0..100_000 {
        match block_on(store.commit(create(format!("{number}"), 3_000, None))) {
            Ok(_) => log.line(&format!("{number}")),
            Err(CommitError::NotApplied(_)) => {
                assert!(!is_there(store, &format!("{number}")), "{number} was not applied");
                assert!(is_there(store, "0"), "reads work");
                let page =
                    block_on(store.scan(&StoreRange::prefix(""), ScanFrom::first(10))).unwrap();
                assert!(!page.entries.is_empty());
                return;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never became full");
}

/// A small file system, unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Returns `None` where file systems cannot be mounted.
    fn mount(place: &Path) -> Option<Self> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=3000k", "none"]).arg(place);
        let status = command.status().ok()?;
        status.success().then(|| Self(place.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _left = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_only_commits() {
    let (place, logs) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let log_path = logs.path().join("log");
    let disk = SmallDisk::mount(place.path());
    let ballast = place.path().join("ballast");
    if disk.is_some() {
        fs::write(&ballast, vec![0; 1_700_000]).unwrap();
    }
    let folder = place.path().join("store");
    let command = "trap '' XFSZ; ulimit -f 600; exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).arg(std::env::current_exe().unwrap()).args(PLAY);
    let mut plain = Command::new(std::env::current_exe().unwrap());
    plain.args(PLAY);
    // Without a mount, a limit of file sizes has the same effect.
    let command = if disk.is_some() { &mut plain } else { &mut shell };
    Part::spawn(command, "fill", &folder, &log_path, 0).wait();
    if disk.is_some() {
        fs::remove_file(&ballast).unwrap();
    }
    let store = open(&folder);
    let acknowledged = lines(&log_path);
    assert!(acknowledged.len() > 10, "{}", acknowledged.len());
    for name in &acknowledged {
        assert!(is_there(&store, name), "{name}");
    }
    assert!(!is_there(&store, &format!("{}", acknowledged.len())));
    block_on(store.commit(create("room again".to_owned(), 10, None))).unwrap();
    drop(store);
    drop(disk);
}

/// Fills the disk to its last byte.
fn fill_up(ballast: &Path) {
    let mut file = File::options().create(true).append(true).open(ballast).unwrap();
    for bytes in [4_096, 1] {
        while file.write_all(&vec![0; bytes]).is_ok() {}
    }
}

/// Runs the named test on a small disk. Without the right to mount, the test restarts in a
/// namespace of its own.
fn on_a_small_disk(name: &str, test: impl FnOnce(&Path)) {
    const INSIDE: &str = "SHARDWRIGHT_STORE_TEST_INSIDE";
    let place = TempDir::new().unwrap();
    if let Some(disk) = SmallDisk::mount(place.path()) {
        test(place.path());
        return drop(disk);
    }
    assert!(std::env::var_os(INSIDE).is_none(), "no disk can be mounted");
    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    let name = format!("file_processes::{name}");
    let output = inside.args([&name, "--exact", "--nocapture"]).env(INSIDE, "").output().unwrap();
    let text = format!("{output:?}");
    assert!(output.status.success(), "the test needs root or a user namespace: {text}");
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn a_store_on_a_full_disk_can_be_reopened_and_read() {
    on_a_small_disk("a_store_on_a_full_disk_can_be_reopened_and_read", open_on_full_disk);
}

fn open_on_full_disk(place: &Path) {
    let logs = TempDir::new().unwrap();
    let (folder, ballast) = (place.join("store"), place.join("ballast"));
    let is_marked_closed = || -> bool {
        let tool = rusqlite::Connection::open(folder.join("state.db")).unwrap();
        tool.query_row("SELECT closed FROM store", [], |row| row.get(0)).unwrap()
    };
    // First after a clean close, then after a crash that left a session.
    for is_crashed in [false, true] {
        let store = open(&folder);
        let name = |what: &str| format!("{what}/{is_crashed}");
        block_on(store.commit(create(name("before"), 10, None))).unwrap();
        drop(store);
        if is_crashed {
            let mut part = Part::start("hold a session", &folder, &logs.path().join("log"), 0);
            part.wait_for_lines("done", 1);
            part.kill();
        }
        fill_up(&ballast);
        let store = open(&folder);
        assert!(is_there(&store, &name("before")), "reads work");
        let refused = block_on(store.commit(create(name("without room"), 3_000, None)));
        let Err(CommitError::NotApplied(fault)) = refused else { panic!("{refused:?}") };
        assert_eq!(fault.kind, FaultKind::Full, "{fault}");
        // Again, after it was closed on the full disk.
        drop(store);
        let store = open(&folder);
        assert!(is_there(&store, &name("before")) && !is_there(&store, &name("without room")));
        fs::remove_file(&ballast).unwrap();
        block_on(store.commit(create(name("after"), 3_000, None))).unwrap();
        let deadline = Instant::now() + TIMEOUT;
        while is_there(&store, "held") {
            assert!(Instant::now() < deadline, "the session of a dead process stays");
        }
        assert!(!is_marked_closed(), "the first writer marks it as in use");
        drop(store);
        assert!(is_marked_closed());
    }
}

#[test]
fn freed_disk_space_is_used_without_reopening() {
    on_a_small_disk("freed_disk_space_is_used_without_reopening", use_room_again);
}

fn use_room_again(place: &Path) {
    let ballast = place.join("ballast");
    fs::write(&ballast, vec![0; 1_700_000]).unwrap();
    let store = open(&place.join("store"));
    let mut number = 0;
    let full = loop {
        match block_on(store.commit(create(format!("{number}"), 3_000, None))) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    let CommitError::NotApplied(fault) = full else { panic!("{full}") };
    assert_eq!(fault.kind, FaultKind::Full, "{fault}");
    assert!(fault.message().contains("state.db"), "{fault}");
    fs::remove_file(&ballast).unwrap();
    block_on(store.commit(create(format!("{number}"), 3_000, None))).unwrap();
    assert!((0..=number).all(|number| is_there(&store, &format!("{number}"))));
}
