//! How the file store handles files that it cannot have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rusqlite::Connection;
use shardwright_store::file::{FileOpenError, FileOptions, FileStore};
use shardwright_store::{
    Commit, CommitError, Expect, Key, Revision, ScanFrom, Store, StoreRange, Versioned,
};
use tempfile::TempDir;

use crate::processes::{Chance, block_on};

fn open(folder: &Path) -> Result<FileStore, FileOpenError> {
    FileStore::open(folder, FileOptions::default())
}

fn database(folder: &Path) -> Connection {
    Connection::open(folder.join("state.db")).unwrap()
}

async fn put(store: &FileStore, name: &str, value: &str) -> Result<Revision, CommitError> {
    let key = Key::from(name.to_owned());
    let found = store.load(std::slice::from_ref(&key)).await.unwrap().values.pop().unwrap();
    let expect = found.map_or(Expect::Absent, |found| Expect::At(found.revision));
    let commit = Commit::builder().expect(key.clone(), expect).put(key, value.to_owned());
    store.commit(commit.build().unwrap()).await
}

type Contents = BTreeMap<String, String>;

fn contents(store: &FileStore) -> (Revision, Contents) {
    let page = block_on(store.scan(&StoreRange::prefix(""), ScanFrom::first(1_000))).unwrap();
    assert!(page.next.is_none());
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let entries = page.entries.iter().map(|(key, found)| (key.to_string(), text(&found.value)));
    (page.revision, entries.collect())
}

fn assert_damaged(result: Result<FileStore, FileOpenError>, folder: &Path) {
    match result {
        Err(error @ FileOpenError::Damaged { .. }) => {
            let path = folder.canonicalize().unwrap().join("state.db");
            let text = error.to_string();
            assert!(text.contains(path.to_str().unwrap()) && text.contains("restore"), "{text}");
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the damaged store was opened"),
    }
}

/// A copy of the files, made by another process, because this one uses the store.
fn copy_of(folder: &Path) -> TempDir {
    let copied = TempDir::new().unwrap();
    for name in ["state.db", "state.db-wal"] {
        let path = folder.join(name);
        assert!(Command::new("cp").arg(path).arg(copied.path()).status().unwrap().success());
    }
    copied
}

/// A part of the log is checkpointed, then the log is truncated before that part. The database is
/// newer than the rest of the log, and only the digest shows it.
#[test]
fn a_database_newer_than_its_log_is_refused() {
    let folder = TempDir::new().unwrap();
    let options = || FileOptions { log_pages: 1_000_000, ..FileOptions::default() };
    let (mut states, mut now) = (BTreeMap::new(), Contents::new());
    let mut write = |store: &FileStore, name: usize, round: usize| {
        let (name, value) = (format!("{name:03}"), format!("{round} {}", "x".repeat(700)));
        let revision = block_on(put(store, &name, &value)).unwrap();
        now.insert(name, value);
        states.insert(revision, now.clone());
    };
    // Enough for many pages, all checkpointed.
    let store = FileStore::open(folder.path(), options()).unwrap();
    (0..150).for_each(|name| write(&store, name, 0));
    drop(store);
    let store = FileStore::open(folder.path(), options()).unwrap();
    (1..60).for_each(|round| write(&store, round * 41 % 150, round));
    // A scan in progress keeps the log from restarting.
    let first = block_on(store.scan(&StoreRange::prefix(""), ScanFrom::first(1))).unwrap();
    assert!(first.next.is_some());
    (60..90).for_each(|round| write(&store, round * 41 % 150, round));
    let moved: (i64, i64, i64) = database(folder.path())
        .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert!(moved.2 > 100 && moved.2 < moved.1, "a part was checkpointed: {moved:?}");
    let copied = copy_of(folder.path());
    let log = fs::read(copied.path().join("state.db-wal")).unwrap();
    let (mut refused, mut taken) = (0, 0);
    for cut in (0..=40).map(|part| log.len() * part / 40) {
        let image = TempDir::new().unwrap();
        fs::copy(copied.path().join("state.db"), image.path().join("state.db")).unwrap();
        fs::write(image.path().join("state.db-wal"), &log[..cut]).unwrap();
        match open(image.path()) {
            Ok(store) => {
                let (revision, found) = contents(&store);
                assert!(found == states[&revision], "cut at {cut}: a mixture at {revision}");
                taken += 1;
            }
            Err(error) => {
                assert_damaged(Err(error), image.path());
                refused += 1;
            }
        }
    }
    assert!(refused > 5 && taken > 5, "{refused} refused, {taken} taken");
}

/// The log is lost while it is checkpointed, page by page.
#[test]
fn a_database_with_pages_of_two_revisions_is_refused() {
    const PAGE: usize = 4_096;
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    for name in 0..150 {
        block_on(put(&store, &format!("{name:03}"), &"x".repeat(700))).unwrap();
    }
    let move_log = || database(folder.path()).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    move_log().unwrap();
    let before = fs::read(copy_of(folder.path()).path().join("state.db")).unwrap();
    for name in (0..150).step_by(3) {
        block_on(put(&store, &format!("{name:03}"), &"y".repeat(700))).unwrap();
    }
    move_log().unwrap();
    let after = fs::read(copy_of(folder.path()).path().join("state.db")).unwrap();
    let mut refused = 0;
    for pages in 1..before.len().min(after.len()) / PAGE {
        let mut mixed = after.clone();
        mixed[pages * PAGE..before.len()].copy_from_slice(&before[pages * PAGE..]);
        if mixed == after {
            continue;
        }
        let image = TempDir::new().unwrap();
        fs::write(image.path().join("state.db"), mixed).unwrap();
        match open(image.path()) {
            Err(error) => assert_damaged(Err(error), image.path()),
            // Before any page with data was checkpointed.
            Ok(store) => assert!(contents(&store).1.values().all(|value| value.starts_with('x'))),
        }
        refused += 1;
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = TempDir::new().unwrap();
    let noise: Vec<u8> = (0..20_000_u32).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
    fs::write(folder.path().join("state.db"), noise).unwrap();
    assert_damaged(open(folder.path()), folder.path());
}

#[test]
fn the_database_of_another_program_is_not_changed() {
    let folder = TempDir::new().unwrap();
    database(folder.path()).execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = fs::read(folder.path().join("state.db")).unwrap();
    let refused = open(folder.path());
    assert!(matches!(refused, Err(FileOpenError::Foreign { .. })), "{refused:?}");
    assert_eq!(fs::read(folder.path().join("state.db")).unwrap(), before);
}

#[test]
fn a_newer_schema_is_refused_with_its_version() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    database(folder.path()).pragma_update(None, "user_version", 7).unwrap();
    let refused = open(folder.path());
    assert!(matches!(refused, Err(FileOpenError::Newer { found: 7, known: 1, .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("schema version 7"));
}

#[test]
fn every_user_checks_the_application_id() {
    let folder = TempDir::new().unwrap();
    let holding = open(folder.path()).unwrap();
    database(folder.path()).pragma_update(None, "user_version", 7).unwrap();
    let refused = open(folder.path());
    assert!(matches!(refused, Err(FileOpenError::Newer { found: 7, known: 1, .. })), "{refused:?}");
    database(folder.path()).pragma_update(None, "user_version", 1).unwrap();
    database(folder.path()).pragma_update(None, "application_id", 1).unwrap();
    let refused = open(folder.path());
    assert!(matches!(refused, Err(FileOpenError::Foreign { .. })), "{refused:?}");
    database(folder.path()).pragma_update(None, "application_id", 0x5368_7772).unwrap();
    drop((open(folder.path()).unwrap(), holding));
}

#[test]
fn opening_a_database_restores_its_log() {
    let folder = TempDir::new().unwrap();
    drop(open(folder.path()).unwrap());
    let mode = |connection: &Connection| -> String {
        connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap()
    };
    let tool = database(folder.path());
    tool.pragma_update(None, "journal_mode", "DELETE").unwrap();
    assert_eq!(mode(&tool), "delete");
    drop(tool);
    let store = open(folder.path()).unwrap();
    assert_eq!(mode(&database(folder.path())), "wal");
    block_on(put(&store, "a", "1")).unwrap();
}

#[test]
fn a_read_detects_a_changed_entry() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    block_on(put(&store, "good", "1")).unwrap();
    block_on(put(&store, "bad", "1")).unwrap();
    let changed = "UPDATE entry SET value = x'32' WHERE key = CAST('bad' AS BLOB)";
    assert_eq!(database(folder.path()).execute(changed, []).unwrap(), 1);
    let load = |names: [&'static str; 2]| {
        let found = block_on(store.load(&names.map(Key::from))).unwrap().values;
        found.into_iter().map(Option::unwrap).collect::<Vec<_>>()
    };
    let (scanned, loaded) = (scan(&store), load(["bad", "good"]));
    assert_eq!(
        scanned.iter().map(|(_, found)| found).collect::<Vec<_>>(),
        [&loaded[0], &loaded[1]]
    );
    assert!(loaded[0].is_damaged && loaded[0].value.is_empty());
    assert!(!loaded[1].is_damaged && loaded[1].value == "1");
    // After a crash, all entries are checked.
    std::mem::forget(store);
    database(folder.path()).execute_batch("UPDATE store SET closed = 0").unwrap();
    let copied = copy_of(folder.path());
    assert_damaged(open(copied.path()), copied.path());
}

fn scan(store: &FileStore) -> Vec<(Key, Versioned)> {
    block_on(store.scan(&StoreRange::prefix(""), ScanFrom::first(5))).unwrap().entries
}

/// Changes each column of a row besides its key to an impossible value.
#[test]
fn a_damaged_entry_can_be_replaced_and_deleted() {
    let changes = [
        "value = x'32'",
        "revision = revision + 1000",
        "revision = -1",
        "session = 77",
        "checksum = checksum + 1",
    ];
    for change in changes {
        let folder = TempDir::new().unwrap();
        let store = open(folder.path()).unwrap();
        block_on(put(&store, "bad", "1")).unwrap();
        let damage = || database(folder.path()).execute(&format!("UPDATE entry SET {change}"), []);
        assert_eq!(damage().unwrap(), 1);
        assert!(scan(&store)[0].1.is_damaged, "{change}");
        block_on(put(&store, "bad", "2")).unwrap();
        let (_, replaced) = scan(&store).remove(0);
        assert!(!replaced.is_damaged && replaced.value == "2", "{change}");
        assert_eq!(damage().unwrap(), 1);
        let (key, found) = scan(&store).remove(0);
        let commit = Commit::builder().expect(key.clone(), Expect::At(found.revision)).delete(key);
        block_on(store.commit(commit.build().unwrap())).unwrap();
        assert!(scan(&store).is_empty(), "{change}");
    }
}

#[test]
fn damage_fails_only_the_commits_that_touch_it() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    block_on(put(&store, "bad", "1")).unwrap();
    let tool = database(folder.path());
    assert_eq!(tool.execute("UPDATE entry SET value = x'32'", []).unwrap(), 1);
    let commit = |name: &'static str, expect| {
        let commit = Commit::builder().expect(Key::from(name), expect).put(Key::from(name), "");
        store.commit(commit.build().unwrap())
    };
    // One commit waits for the tool. The two that arrive meanwhile share a batch.
    tool.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, refused, beside, ()) = block_on(async {
        tokio::join!(
            commit("first", Expect::Absent),
            commit("bad", Expect::Absent),
            commit("beside", Expect::Absent),
            async { tool.execute_batch("ROLLBACK").unwrap() },
        )
    });
    assert!(first.is_ok() && beside.is_ok(), "{first:?} {beside:?}");
    let Err(CommitError::Conflict(conflict)) = refused else { panic!("{refused:?}") };
    assert!(conflict.found[0].1.as_ref().unwrap().is_damaged);
}

/// With arbitrary numbers and bytes in the tables, the result is an error or a written value.
#[test]
fn no_stored_bytes_make_the_store_panic() {
    let mut chance = Chance(9);
    let columns = [
        ("store", &["revision", "digest", "forgotten_revision", "forgotten_bytes"][..]),
        ("store", &["change_bytes", "last_session", "last_owner", "closed"][..]),
        ("entry", &["key", "value", "revision", "session", "checksum"][..]),
        ("change", &["position", "key", "value", "session", "bytes_before"][..]),
        ("session", &["id", "owner", "ttl_ms", "deadline_ms"][..]),
    ];
    let numbers = ["-1", "0", "9223372036854775807", "-9223372036854775808", "140737488355327"];
    let bytes = ["x''", "x'00ff'", "zeroblob(70000)", "NULL", "CAST('a' AS BLOB)"];
    for round in 0..120 {
        let folder = TempDir::new_in(fast()).unwrap();
        let store = open(folder.path()).unwrap();
        block_on(async {
            put(&store, "a", "1").await.unwrap();
            let session = store.open_session(Duration::from_secs(60)).await.unwrap();
            let key = Key::from("mine");
            let commit = Commit::builder().expect(key.clone(), Expect::Absent);
            let commit = commit.put_in_session(key, "", session.id).build().unwrap();
            store.commit(commit).await.unwrap();
        });
        let connection = database(folder.path());
        for _ in 0..=chance.below(2) {
            let (table, names) = columns[chance.below(columns.len())];
            let column = names[chance.below(names.len())];
            let is_bytes = matches!(column, "key" | "value");
            let values: &[&str] = if is_bytes { &bytes } else { &numbers };
            let value = values[chance.below(values.len())];
            // The tables themselves refuse some changes.
            let _refused =
                connection.execute_batch(&format!("UPDATE {table} SET {column} = {value}"));
        }
        block_on(use_it(&store));
        drop(connection);
        drop(store);
        match open(folder.path()) {
            Ok(store) => block_on(use_it(&store)),
            Err(error) => assert!(error.to_string().contains("state.db"), "{round}: {error}"),
        }
    }
}

/// Calls everything and ignores errors.
async fn use_it(store: &FileStore) {
    let key = Key::from("a");
    let loaded = store.load(&[key.clone(), Key::from("mine")]).await;
    let _any = store.scan(&StoreRange::prefix(""), ScanFrom::first(1)).await;
    let _any = store.watch(&StoreRange::prefix(""), Revision::ZERO).await;
    let session = store.open_session(Duration::from_millis(1)).await;
    let expect = match loaded {
        Ok(snapshot) => {
            snapshot.values[0].as_ref().map_or(Expect::Absent, |found| Expect::At(found.revision))
        }
        Err(_) => Expect::Absent,
    };
    let commit =
        Commit::builder().expect(key.clone(), expect).put(key, "2").delete(Key::from("mine"));
    let _any = store.commit(commit.build().unwrap()).await;
    if let Ok(session) = session {
        let _any = store.keep_alive(session.id).await;
        let _any = store.close_session(session.id).await;
    }
    store.check_sessions();
}

fn fast() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

#[test]
fn empty_or_missing_database_of_an_existing_store_is_damage() {
    let folder = TempDir::new().unwrap();
    let store = open(folder.path()).unwrap();
    block_on(put(&store, "a", "1")).unwrap();
    // The store is in use, so its log is not empty.
    let copied = copy_of(folder.path());
    drop(store);
    for content in ["", "\0"] {
        fs::write(folder.path().join("state.db"), content).unwrap();
        assert_damaged(open(folder.path()), folder.path());
    }
    // An empty database of SQLite is no new store either.
    fs::remove_file(folder.path().join("state.db")).unwrap();
    database(folder.path()).execute_batch("PRAGMA journal_mode = WAL").unwrap();
    assert_damaged(open(folder.path()), folder.path());
    fs::remove_file(copied.path().join("state.db")).unwrap();
    assert_damaged(open(copied.path()), copied.path());
}

#[test]
fn interrupted_creation_leaves_no_store() {
    let folder = TempDir::new().unwrap();
    for name in ["state.new", "state.new-journal"] {
        fs::write(folder.path().join(name), "incomplete").unwrap();
    }
    let store = open(folder.path()).unwrap();
    block_on(put(&store, "a", "1")).unwrap();
    drop(store);
    assert!(!folder.path().join("state.new").exists());
    assert_eq!(contents(&open(folder.path()).unwrap()).1.len(), 1);
}

#[test]
fn files_of_a_store_are_closed_to_other_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = TempDir::new().unwrap();
    let folder = place.path().join("state");
    let store = open(&folder).unwrap();
    block_on(put(&store, "a", "1")).unwrap();
    block_on(store.open_session(Duration::from_secs(5))).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&folder.join("locks"))), (0o700, 0o700));
    let mut files = 0;
    for folder in [folder.clone(), folder.join("locks")] {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                assert_eq!(mode(&entry.path()), 0o600, "{:?}", entry.path());
                files += 1;
            }
        }
    }
    assert!(files >= 8, "{files}");
}
