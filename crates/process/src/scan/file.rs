//! Scanning a file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use shardwright_scan::{FileReport, Scanner, Scratch, Skipped};
use shardwright_worker::handler::ItemFailure;

/// Scans a file. A file that is gone or may not be read is reported as skipped. Stops when `lost`.
pub(super) fn scan(
    scanner: &Scanner,
    key: &[u8],
    path: &Path,
    scratch: &mut Scratch,
    lost: &AtomicBool,
) -> Result<FileReport, ItemFailure> {
    if scanner.is_allowed(key) {
        return Ok(scanner.unread(key, Skipped::Allowed));
    }
    match read(scanner, key, path, scratch, lost) {
        Ok(report) => Ok(report),
        Err(error) => match skip_reason(&error) {
            Some(why) => Ok(scanner.unread(key, why)),
            None => Err(ItemFailure::retryable(format!("it cannot be read: {error}"))),
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
    // The file may have been replaced since it was listed: do not follow a link or wait for a pipe.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Ok(scanner.unread(key, Skipped::Vanished));
    }
    let mut scan = scanner.begin(key, scratch);
    while !lost.load(Ordering::Relaxed) && scan.read(&mut file)? > 0 {}
    Ok(scan.finish())
}

/// Why a file is skipped, if the reason is the file and not a shortage of the process.
fn skip_reason(error: &io::Error) -> Option<Skipped> {
    match Errno::from_io_error(error)? {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE | Errno::SRCH => {
            Some(Skipped::Vanished)
        }
        Errno::ACCESS | Errno::PERM => Some(Skipped::Unreadable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::mkfifoat;
    use shardwright_scan::{RuleSet, Secrecy};

    use super::*;

    fn skipped(path: &Path) -> Option<Skipped> {
        let rules = "[[rules]]\nid='a'\nregex='secret'\n[[rules]]\nid='b'\npath='bad'";
        let rules = RuleSet::parse("rules", rules, Path::new("")).unwrap();
        let scanner = Scanner::new(rules, Secrecy::Shown).unwrap();
        let (mut scratch, lost) = (Scratch::new(), AtomicBool::new(false));
        let report = scan(&scanner, b"bad", path, &mut scratch, &lost).unwrap();
        let expected = 1 + usize::from(report.skipped.is_none());
        assert_eq!(report.findings.len(), expected, "the path rule applies in any case");
        report.skipped
    }

    #[test]
    fn a_replaced_file_is_neither_followed_nor_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "a secret").unwrap();
        symlink(path("file"), path("link")).unwrap();
        mkfifoat(CWD, path("pipe"), Mode::RWXU).unwrap();
        assert_eq!(skipped(&path("file")), None);
        for gone in ["link", "pipe", "nothing", "file/below", "."] {
            assert_eq!(skipped(&path(gone)), Some(Skipped::Vanished), "{gone}");
        }
    }

    #[test]
    fn only_errors_of_the_file_itself_skip_it() {
        for (errno, expected) in [
            (Errno::ACCESS, Some(Skipped::Unreadable)),
            (Errno::PERM, Some(Skipped::Unreadable)),
            (Errno::NOENT, Some(Skipped::Vanished)),
            (Errno::SRCH, Some(Skipped::Vanished)),
            (Errno::MFILE, None),
            (Errno::NOMEM, None),
            (Errno::IO, None),
        ] {
            assert_eq!(skip_reason(&errno.into()), expected, "{errno}");
        }
    }
}
