//! Locks of the operating system on separate files beside the database.
//!
//! A lock ends with its process, even after a crash. The files of the database are never opened
//! here: closing a descriptor of them would drop the locks of SQLite.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::schema::beside;
use super::{DATABASE, PRIVATE_MODE};

/// The folder of the lock files.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    folder: PathBuf,
}

impl Locks {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let path = self.path(name);
        // Users that share the database, by its permissions, share its locks as well.
        let database = fs::metadata(self.folder.with_file_name(DATABASE));
        let mode = database.map_or(PRIVATE_MODE, |found| found.mode() & 0o666);
        let mut options = OpenOptions::new();
        open(&path, options.create(true).truncate(false).mode(mode))
    }

    /// Names the other processes that keep this one from writing.
    pub(super) fn writers(&self, database: &Path) -> String {
        let turn = self.path("turn");
        let mut writers = holders(&[&turn, database, &beside(database, "-shm")]);
        writers.remove(&std::process::id());
        named(&writers)
    }

    fn owner_path(&self, owner: i64) -> PathBuf {
        self.folder.join(format!("owner-{owner}"))
    }

    /// Takes the lock of a new owner of sessions. Returns `None` if the number is used.
    pub(super) fn take_owner(&self, owner: i64) -> io::Result<Option<Owner>> {
        let path = self.owner_path(owner);
        let file = self.file(&format!("owner-{owner}"))?;
        if !try_lock(&file)? {
            return Ok(None);
        }
        // A cleanup may have removed the file before it was locked.
        let is_there = fs::metadata(&path).is_ok_and(|found| {
            file.metadata().is_ok_and(|ours| found.ino() == ours.ino() && found.dev() == ours.dev())
        });
        Ok(is_there.then_some(Owner { number: owner, path, _lock: file }))
    }

    /// Whether the process that owns the sessions has ended.
    pub(super) fn is_owner_gone(&self, owner: i64) -> io::Result<bool> {
        let path = self.owner_path(owner);
        let file = match open(&path, &mut OpenOptions::new()) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        try_lock(&file)
    }

    /// Removes the lock file of an ended owner.
    pub(super) fn forget_owner(&self, owner: i64) {
        // A leftover file costs a few bytes.
        let _stays = fs::remove_file(self.owner_path(owner));
    }

    /// Removes all lock files of owners. The caller knows that there are none.
    pub(super) fn forget_all_owners(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else { return };
        for file in files.flatten() {
            if file.file_name().to_string_lossy().starts_with("owner-") {
                let _stays = fs::remove_file(file.path());
            }
        }
    }
}

/// The lock of one owner of sessions. It ends with the process.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) number: i64,
    path: PathBuf,
    _lock: File,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _stays = fs::remove_file(&self.path);
    }
}

/// Opens a lock file. A link is not followed: a heartbeat would overwrite its target. A pipe is not
/// waited for.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let options = options.read(true).write(true).custom_flags(flags.bits().cast_signed());
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        let what = format!("{} is not a regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(file)
}

/// Locks the file without waiting. Returns whether it is locked.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks the file without waiting, together with others. Returns whether it is locked.
pub(super) fn try_lock_shared(file: &File) -> io::Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Names the processes that have locked a file exclusively, as far as the system reports them.
#[must_use]
pub fn lock_holders(file: &Path) -> String {
    named(&holders(&[file]))
}

fn named(holders: &BTreeSet<u32>) -> String {
    let holders: Vec<String> = holders.iter().map(|id| format!("process {id}")).collect();
    if holders.is_empty() { "another process".to_owned() } else { holders.join(", ") }
}

/// The processes that have locked one of the files exclusively.
pub(super) fn holders(files: &[&Path]) -> BTreeSet<u32> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let identities = files.iter().filter_map(|file| {
        let found = fs::metadata(file).ok()?;
        let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        Some(format!("{major:02x}:{minor:02x}:{}", found.ino()))
    });
    holders_in(&locks, &identities.collect::<Vec<_>>())
}

/// The processes with an exclusive lock on one of the files, in the format of `/proc/locks`.
fn holders_in(locks: &str, identities: &[String]) -> BTreeSet<u32> {
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The line of a waiting process has a field more.
        let [_, _, _, "WRITE", process, identity, ..] = *fields.as_slice() else { return None };
        let is_held = identities.iter().any(|other| other == identity);
        process.parse().ok().filter(|id| is_held && *id > 0)
    };
    locks.lines().filter_map(holder).collect()
}

/// Locks the file within a timeout. Returns whether it is locked.
pub(super) fn lock_within(
    file: &File,
    timeout: Duration,
    try_lock: impl Fn(&File) -> io::Result<bool>,
) -> io::Result<bool> {
    let deadline = Instant::now() + timeout;
    while !try_lock(file)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(true)
}

/// A fair lock for writing, among processes.
///
/// It has two files. A writer locks `next`, waits for `turn`, and then unlocks `next`. So a process
/// that has just written cannot overtake a waiting one, as it could with one lock.
#[derive(Debug)]
pub(super) struct WriteLock {
    next: File,
    turn: File,
}

impl WriteLock {
    pub(super) fn new(locks: &Locks) -> io::Result<Self> {
        Ok(Self { next: locks.file("next")?, turn: locks.file("turn")? })
    }

    /// Takes the lock, unless another process holds it or waits for it.
    pub(super) fn try_acquire(&self) -> io::Result<bool> {
        if !try_lock(&self.next)? {
            return Ok(false);
        }
        let taken = try_lock(&self.turn);
        self.next.unlock()?;
        taken
    }

    /// Waits for the lock, without a timeout.
    pub(super) fn acquire(&self) -> io::Result<()> {
        self.next.lock()?;
        let taken = self.turn.lock();
        self.next.unlock()?;
        taken
    }

    pub(super) fn release(&self) -> io::Result<()> {
        self.turn.unlock()
    }
}

/// The name of a network file system, by the number of its type.
pub(super) fn network_kind(magic: i64) -> Option<&'static str> {
    // The numbers of the kernel's headers. Some are negative in a signed field.
    Some(match u32::try_from(magic & 0xffff_ffff).unwrap_or_default() {
        0x6969 => "NFS",
        0x517b => "SMB",
        0xff53_4d42 => "CIFS",
        0xfe53_4d42 => "SMB2",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x0102_1997 => "9P",
        0x4750_4653 => "GPFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x1983_0326 => "BeeGFS",
        0x786f_4256 => "a folder of VirtualBox's host",
        0xbacb_acbc => "a folder of VMware's host",
        0x6573_5546 => "FUSE, which may hide a network",
        _ => return None,
    })
}

/// The kind of network file system that a folder is on, if any.
pub(super) fn network_kind_of(folder: &Path) -> io::Result<Option<&'static str>> {
    // The width and sign of the field differ between machines.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "differs by machine")]
    let magic = rustix::fs::statfs(folder)?.f_type as i64;
    Ok(network_kind(magic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> (tempfile::TempDir, Locks) {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::new(folder.path().to_owned());
        (folder, locks)
    }

    #[test]
    fn an_owner_lives_until_its_lock_ends() {
        let (_folder, locks) = locks();
        assert!(locks.is_owner_gone(1).unwrap());
        let owner = locks.take_owner(1).unwrap().unwrap();
        assert!(!locks.is_owner_gone(1).unwrap());
        assert!(locks.take_owner(1).unwrap().is_none());
        drop(owner);
        assert!(locks.is_owner_gone(1).unwrap());
        // The file of a dead process is not locked.
        drop(locks.file("owner-2").unwrap());
        assert!(locks.is_owner_gone(2).unwrap());
        locks.forget_all_owners();
        assert!(!locks.owner_path(2).exists());
    }

    #[test]
    fn links_and_pipes_are_no_lock_files() {
        let (folder, locks) = locks();
        let target = folder.path().join("target");
        fs::write(&target, "mine").unwrap();
        std::os::unix::fs::symlink(&target, locks.path("open")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, locks.owner_path(1), pipe, mode, 0).unwrap();
        assert!(locks.file("open").is_err() && locks.is_owner_gone(1).is_err());
        assert!(locks.take_owner(1).is_err());
        assert_eq!(fs::read(target).unwrap(), b"mine");
    }

    #[test]
    fn a_waiting_writer_is_not_overtaken() {
        let (_folder, locks) = locks();
        let (first, second) = (WriteLock::new(&locks).unwrap(), WriteLock::new(&locks).unwrap());
        assert!(first.try_acquire().unwrap() && !second.try_acquire().unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| second.acquire().unwrap());
            // Until the other thread holds `next`.
            while try_lock(&first.next).unwrap() {
                first.next.unlock().unwrap();
                thread::yield_now();
            }
            first.release().unwrap();
            waiting.join().unwrap();
            assert!(!first.try_acquire().unwrap(), "the other thread was next");
            second.release().unwrap();
        });
        assert!(first.try_acquire().unwrap());
    }

    #[test]
    fn holders_of_a_lock_are_found_among_those_who_wait() {
        let locks = "1: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 13 08:01:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 14 fe:00:9 120 120\n\
                     2: POSIX  ADVISORY  READ 15 fe:00:9 123 123\n\
                     3: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF\n\
                     damaged\n";
        let holders = |identity: &str| holders_in(locks, &[identity.to_owned()]);
        assert_eq!(holders("08:01:77"), BTreeSet::from([12]));
        assert_eq!(holders("fe:00:9"), BTreeSet::from([14]));
        assert!(holders("08:01:7").is_empty());
    }

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xff53_4d42), Some("CIFS"));
        assert_eq!(network_kind(i64::from(0xff53_4d42_u32.cast_signed())), Some("CIFS"));
        for local in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert_eq!(network_kind(local), None, "{local:x}");
        }
        assert_eq!(network_kind_of(Path::new("/tmp")).unwrap(), None);
    }
}
