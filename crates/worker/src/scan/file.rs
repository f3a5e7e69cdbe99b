//! Looking at a file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use shardwright_scan::{FileReport, Scanner, Scratch, Skipped};

use crate::job::JobFailure;

/// Looks at a file, unless it is gone or may not be read. What is lost is not gone on with.
pub(super) fn scan(
    scanner: &Scanner,
    key: &[u8],
    path: &Path,
    scratch: &mut Scratch,
    lost: &AtomicBool,
) -> Result<FileReport, JobFailure> {
    if scanner.is_allowed(key) {
        return Ok(scanner.unread(key, Skipped::Allowed));
    }
    match read(scanner, key, path, scratch, lost) {
        Ok(report) => Ok(report),
        Err(error) => match why_unread(&error) {
            Some(why) => Ok(scanner.unread(key, why)),
            None => Err(JobFailure::retryable(format!("it cannot be read: {error}"))),
        },
    }
}

fn read(
    scanner: &Scanner,
    key: &[u8],
    path: &Path,
    scratch: &mut Scratch,
    lost: &AtomicBool,
) -> io::Result<FileReport> {
    // Whatever has taken a file's place since it was listed is neither followed nor waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(scanner.unread(key, Skipped::Vanished));
    }
    let mut scan = scanner.begin(key, scratch);
    while !lost.load(Ordering::Relaxed) && scan.read(&mut file)? > 0 {}
    Ok(scan.finish())
}

/// Why a file is not read, if the reason is the file and not a lack of something.
fn why_unread(error: &io::Error) -> Option<Skipped> {
    match Errno::from_io_error(error)? {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE => {
            Some(Skipped::Vanished)
        }
        Errno::ACCESS | Errno::PERM => Some(Skipped::Unreadable),
        _ => None,
    }
}
