//! The users of a store: the first recovers it, the last closes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::Setup;
use super::error::FileOpenError;
use super::locks::{Locks, holders, lock_within, try_lock, try_lock_shared};
use super::{recovery, schema};
use crate::folder::{create_private_folder, sync_folder};

/// How long the last user waits for a process that is opening the store.
const LEAVING: Duration = Duration::from_secs(1);
/// Shortest interval between two heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(100);

/// The kind of network file system that a path is on, if any.
pub(super) type NetworkKind = dyn Fn(&Path) -> io::Result<Option<&'static str>>;

/// Creates the folder of a store. On a network file system it creates nothing.
pub(super) fn make_folder(
    folder: &Path,
    network_kind: &NetworkKind,
) -> Result<PathBuf, FileOpenError> {
    let unwritable =
        |source: io::Error| FileOpenError::Unwritable { folder: folder.to_owned(), source };
    let locks = std::path::absolute(folder.join("locks")).map_err(unwritable)?;
    let there = locks.ancestors().find(|ancestor| ancestor.exists());
    // The locks may be a link to another file system than that of the database.
    for place in there.into_iter().chain(folder.exists().then_some(folder)) {
        if let Some(kind) = network_kind(place).map_err(unwritable)? {
            return Err(FileOpenError::NetworkFileSystem { folder: folder.to_owned(), kind });
        }
    }
    create_private_folder(folder).map_err(unwritable)?;
    create_private_folder(&locks).map_err(unwritable)?;
    // The folder must be durable before its contents are.
    let made = locks.ancestors().take_while(|ancestor| Some(*ancestor) != there);
    for entered_in in made.filter_map(Path::parent) {
        sync_folder(entered_in).map_err(unwritable)?;
    }
    folder.canonicalize().map_err(unwritable)
}

/// Joins the users of a store. The first one creates or recovers it.
pub(super) fn enter(
    locks: &Locks,
    folder: &Path,
    path: &Path,
    timeout: Duration,
) -> Result<File, FileOpenError> {
    let failed =
        |source: io::Error| FileOpenError::Unwritable { folder: folder.to_owned(), source };
    let open = locks.file("open").map_err(failed)?;
    let mut waiting = Waiting::new(timeout, Heartbeat::read(&open), Instant::now());
    while !try_lock(&open).map_err(failed)? {
        if !waiting.continues(Heartbeat::read(&open), Instant::now()) {
            let process = waiting.heartbeat.map(|heartbeat| heartbeat.process);
            return Err(FileOpenError::Busy { folder: folder.to_owned(), process, timeout });
        }
        thread::sleep(Duration::from_millis(2));
    }
    let users = locks.file("users").map_err(failed)?;
    if try_lock(&users).map_err(failed)? {
        locks.forget_all_owners();
        recovery::recover(path, heartbeats(open.try_clone().map_err(failed)?))?;
    } else {
        schema::check(path)?;
    }
    // Only a process outside of this protocol can hold it now.
    if lock_within(&users, timeout, try_lock_shared).map_err(failed)? {
        return Ok(users);
    }
    let process = holders(&[&locks.path("users")]).pop_first();
    Err(FileOpenError::Busy { folder: folder.to_owned(), process, timeout })
}

/// Leaves the users of a store. The last one marks it as closed.
pub(super) fn leave(setup: &Setup) {
    // After a failure, the next process that opens the store checks it.
    let Ok(open) = setup.locks.file("open") else { return };
    if matches!(lock_within(&open, LEAVING, try_lock), Ok(true)) {
        if matches!(try_lock(&setup.users), Ok(true)) {
            let _failed = recovery::close(&setup.path);
        }
        // Unlock before `open` is released. Otherwise the next process would see this user and
        // treat the store as in use.
        let _failed = setup.users.unlock();
    }
}

/// The content of the file `open`, written by the process that opens the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heartbeat {
    process: u32,
    count: u64,
}

impl Heartbeat {
    const BYTES: usize = 64;

    fn write(self, open: &File) {
        // Without a heartbeat, other processes time out sooner.
        // As long as the text of earlier versions, which it overwrites.
        let text = format!("process {:>10}, heartbeat {:>23}\n", self.process, self.count);
        let _unseen = open.write_all_at(text.as_bytes(), 0);
    }

    fn read(open: &File) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        let count = open.read_at(&mut bytes, 0).ok()?;
        let text = str::from_utf8(bytes.get(..count)?).ok()?;
        let mut numbers = text.split(|letter: char| !letter.is_ascii_digit());
        let mut number = || numbers.find(|text| !text.is_empty());
        Some(Self { process: number()?.parse().ok()?, count: number()?.parse().ok()? })
    }
}

/// Writes a heartbeat at once, and then when called, at most once per interval.
fn heartbeats(open: File) -> impl FnMut() + Send + 'static {
    // Differs from the last heartbeat of a process that had the same number.
    let count = Heartbeat::read(&open).map_or(0, |heartbeat| heartbeat.count.wrapping_add(1));
    let mut heartbeat = Heartbeat { process: std::process::id(), count };
    heartbeat.write(&open);
    let mut last = Instant::now();
    move || {
        if last.elapsed() >= HEARTBEAT_INTERVAL {
            last = Instant::now();
            heartbeat.count = heartbeat.count.wrapping_add(1);
            heartbeat.write(&open);
        }
    }
}

/// Waits for a process that opens the store, while it sends heartbeats.
struct Waiting {
    timeout: Duration,
    heartbeat: Option<Heartbeat>,
    since: Instant,
}

impl Waiting {
    const fn new(timeout: Duration, heartbeat: Option<Heartbeat>, now: Instant) -> Self {
        Self { timeout, heartbeat, since: now }
    }

    fn continues(&mut self, heartbeat: Option<Heartbeat>, now: Instant) -> bool {
        if heartbeat != self.heartbeat {
            (self.heartbeat, self.since) = (heartbeat, now);
        }
        now.saturating_duration_since(self.since) < self.timeout
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::file::{FileOptions, FileStore};

    #[test]
    fn nothing_is_created_on_a_network_file_system() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("not/yet/there");
        let asked_about = place.path().to_owned();
        let network_kind = move |asked: &Path| {
            assert_eq!(asked, asked_about);
            Ok(Some("NFS"))
        };
        let refused = FileStore::open_on(&folder, FileOptions::default(), &network_kind);
        let error = refused.unwrap_err();
        assert!(matches!(error, FileOpenError::NetworkFileSystem { kind: "NFS", .. }), "{error}");
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
        // An existing folder is checked itself.
        fs::create_dir_all(&folder).unwrap();
        let itself = folder.clone();
        let network_kind = move |asked: &Path| Ok((asked == itself).then_some("SMB"));
        let refused = FileStore::open_on(&folder, FileOptions::default(), &network_kind);
        assert!(matches!(refused, Err(FileOpenError::NetworkFileSystem { kind: "SMB", .. })));
        assert!(!folder.join("locks").exists());
    }

    #[test]
    fn folder_that_is_replaced_while_it_is_opened_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let [folder, ours, theirs] =
            ["state", "ours", "theirs"].map(|name| place.path().join(name));
        for folder in [&folder, &theirs] {
            drop(FileStore::open(folder, FileOptions::default()).unwrap());
        }
        // After the first check of the owner, and before the database is opened.
        let (path, replacement) = (folder.clone(), theirs.clone());
        let replace = move |_: &Path| {
            if replacement.exists() {
                fs::rename(&path, &ours)?;
                fs::rename(&replacement, &path)?;
            }
            Ok(None)
        };
        let refused = FileStore::open_on(&folder, FileOptions::default(), &replace);
        assert!(matches!(refused, Err(FileOpenError::Replaced { .. })), "{refused:?}");
        FileStore::open_on(&folder, FileOptions::default(), &replace).unwrap();
    }

    #[test]
    fn waiting_continues_while_there_are_heartbeats() {
        let (timeout, start) = (Duration::from_secs(10), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let heartbeat = |count| Some(Heartbeat { process: 7, count });
        let mut waiting = Waiting::new(timeout, heartbeat(0), start);
        assert!(waiting.continues(heartbeat(0), at(9)));
        assert!(waiting.continues(heartbeat(1), at(9)));
        assert!(waiting.continues(heartbeat(1), at(18)), "the last heartbeat is nine seconds old");
        assert!(waiting.continues(heartbeat(2), at(1_000)));
        assert!(!waiting.continues(heartbeat(2), at(1_010)));
    }

    #[test]
    fn each_heartbeat_differs_and_names_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::new(folder.path().to_owned());
        let (open, other) = (locks.file("open").unwrap(), locks.file("open").unwrap());
        assert_eq!(Heartbeat::read(&other), None);
        drop(heartbeats(open.try_clone().unwrap()));
        let first = Heartbeat::read(&other).unwrap();
        assert_eq!(first.process, std::process::id());
        drop(heartbeats(open));
        assert_ne!(Heartbeat::read(&other).unwrap(), first);
    }

    #[test]
    fn a_timeout_names_the_process_that_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        drop(FileStore::open(folder.path(), FileOptions::default()).unwrap());
        let open = Locks::new(folder.path().join("locks")).file("open").unwrap();
        open.lock().unwrap();
        drop(heartbeats(open.try_clone().unwrap()));
        let options = FileOptions { timeout: Duration::from_millis(1), ..FileOptions::default() };
        let error = FileStore::open(folder.path(), options).unwrap_err().to_string();
        let process = format!("process {}", std::process::id());
        assert!(error.contains(&process) && error.contains("1ms"), "{error}");
    }
}
