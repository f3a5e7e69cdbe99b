//! Locks of the operating system, on files of our own beside the database.
//!
//! They end with the process that holds them, whatever ends it. The files of the database itself
//! are never opened here: closing any descriptor of them would drop the locks that SQLite has.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The folder of the lock files.
#[derive(Clone, Debug)]
pub(super) struct Locks {
    folder: PathBuf,
}

impl Locks {
    pub(super) const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let path = self.folder.join(name);
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }

    fn owner_path(&self, owner: i64) -> PathBuf {
        self.folder.join(format!("owner-{owner}"))
    }

    /// Takes the lock of a new owner of sessions; none if another has that number.
    pub(super) fn take_owner(&self, owner: i64) -> io::Result<Option<Owner>> {
        let path = self.owner_path(owner);
        let file = self.file(&format!("owner-{owner}"))?;
        if !try_lock(&file)? {
            return Ok(None);
        }
        // A sweep may have removed the file before it was locked.
        let is_there = fs::metadata(&path).is_ok_and(|found| {
            file.metadata().is_ok_and(|ours| found.ino() == ours.ino() && found.dev() == ours.dev())
        });
        Ok(is_there.then_some(Owner { number: owner, path, _lock: file }))
    }

    /// Whether the owner of sessions is gone.
    pub(super) fn is_owner_gone(&self, owner: i64) -> io::Result<bool> {
        let path = self.owner_path(owner);
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(error),
        };
        try_lock(&file)
    }

    /// Removes what an owner that is gone has left.
    pub(super) fn forget_owner(&self, owner: i64) {
        // If it stays, it costs a few bytes.
        let _stays = fs::remove_file(self.owner_path(owner));
    }

    /// Removes what all owners have left. The caller knows that there are none.
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

/// Locks the file without waiting. Returns whether it did.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Locks the file within a timeout. Returns whether it did.
pub(super) fn lock_within(file: &File, patience: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + patience;
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
/// It has two files. A writer locks `next`, waits for `turn`, and unlocks `next` when it has it. So
/// a process that has just written cannot be first again while another waits, as it could with one
/// lock.
#[derive(Debug)]
pub(super) struct WriteLock {
    next: File,
    turn: File,
}

impl WriteLock {
    pub(super) fn new(locks: &Locks) -> io::Result<Self> {
        Ok(Self { next: locks.file("next")?, turn: locks.file("turn")? })
    }

    /// Takes the lock, unless a process has it or waits for it.
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

/// Why a file system is not taken, if it is not.
pub(super) fn network_kind(magic: i64) -> Option<&'static str> {
    // The numbers are those of the kernel's headers; some are negative in a signed field.
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
        0x6573_5546 => "FUSE, behind which may be anything",
        _ => return None,
    })
}

/// What kind of network file system a folder is on, if it is.
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
    fn an_owner_is_there_until_its_lock_ends() {
        let (_folder, locks) = locks();
        assert!(locks.is_owner_gone(1).unwrap());
        let owner = locks.take_owner(1).unwrap().unwrap();
        assert!(!locks.is_owner_gone(1).unwrap());
        assert!(locks.take_owner(1).unwrap().is_none());
        drop(owner);
        assert!(locks.is_owner_gone(1).unwrap());
        // A file that a dead process has left is not locked.
        drop(locks.file("owner-2").unwrap());
        assert!(locks.is_owner_gone(2).unwrap());
        locks.forget_all_owners();
        assert!(!locks.owner_path(2).exists());
    }

    #[test]
    fn a_waiting_writer_is_not_overtaken() {
        let (_folder, locks) = locks();
        let (first, second) = (WriteLock::new(&locks).unwrap(), WriteLock::new(&locks).unwrap());
        assert!(first.try_acquire().unwrap() && !second.try_acquire().unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| second.acquire().unwrap());
            // Until the other one holds `next`.
            while try_lock(&first.next).unwrap() {
                first.next.unlock().unwrap();
                thread::yield_now();
            }
            first.release().unwrap();
            waiting.join().unwrap();
            assert!(!first.try_acquire().unwrap(), "the other one was next");
            second.release().unwrap();
        });
        assert!(first.try_acquire().unwrap());
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
