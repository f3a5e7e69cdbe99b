//! Files that this program creates, reads and deletes in folders that other users may write to.
//!
//! A name that comes from a record becomes part of a path only as a [`PlainName`]. Files are opened
//! without following a link, and deleted one by one: a folder with other files in it stays.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::Errno;

/// Permissions of results and receipts, before the umask.
pub const RESULT_MODE: u32 = 0o666;
/// Permissions of results and receipts that show secrets, before the umask.
pub const SECRET_MODE: u32 = 0o640;

/// The name of one file: not empty, not `.` or `..`, without a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainName(OsString);

impl PlainName {
    /// Checks a name.
    pub fn new(name: impl AsRef<OsStr>) -> Option<Self> {
        let name = name.as_ref();
        let mut components = Path::new(name).components();
        let is_plain = matches!(
            (components.next(), components.next()),
            (Some(Component::Normal(only)), None) if only == name
        );
        (is_plain && !name.as_bytes().contains(&0)).then(|| Self(name.to_owned()))
    }

    /// The name of a file directly in `folder`. None for all other paths.
    pub fn of(path: &Path, folder: &Path) -> Option<Self> {
        let name = path.as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes())?;
        Self::new(OsStr::from_bytes(name.strip_prefix(b"/")?))
    }

    /// The path of the file in a folder.
    #[must_use]
    pub fn in_folder(&self, folder: &Path) -> PathBuf {
        folder.join(&self.0)
    }

    /// The name as text, if it is UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.to_str()
    }
}

/// Opens a regular file to read it. A link is not followed, and a pipe is not waited for.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(path, OpenOptions::new().read(true))
}

/// Opens or creates a regular file. A link is not followed, and a pipe is not waited for.
pub fn open_regular_with(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.clone().custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}

/// Opens a file to read it. A link is followed, and a pipe is not waited for.
pub(crate) fn open_linked(path: &Path) -> io::Result<File> {
    Ok(File::from(openat(CWD, path, file_flags(), Mode::empty())?))
}

/// Opens a folder. Anything else is an error, and a pipe is not waited for.
pub fn open_folder(path: &Path) -> io::Result<File> {
    Ok(File::from(openat(CWD, path, folder_flags() | OFlags::NONBLOCK, Mode::empty())?))
}

/// Makes the names in a folder durable.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    open_folder(path)?.sync_all()
}

/// Deletes the files in the folder `below[0]/below[1]/…` of `folder` whose names are `is_ours`, and
/// then the folder, if it is empty. Returns whether anything was deleted. Links below `folder` are
/// neither followed nor deleted.
pub fn remove_files(
    folder: &Path,
    below: &[PlainName],
    is_ours: impl Fn(&str) -> bool,
) -> io::Result<bool> {
    let Some((last, above)) = below.split_last() else { return Ok(false) };
    let opened = (|| {
        let mut parent = openat(CWD, folder, folder_flags(), Mode::empty())?;
        for name in above {
            parent = enter(&parent, name)?;
        }
        let found = enter(&parent, last)?;
        Ok((parent, found))
    })();
    let (parent, found): (OwnedFd, OwnedFd) = match opened {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(false),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Err(io::Error::other("it is not a folder of this program"));
        }
        Err(error) => return Err(error.into()),
    };
    let mut is_changed = false;
    for entry in Dir::read_from(&found)? {
        let entry = entry?;
        let name = entry.file_name();
        if !name.to_str().is_ok_and(&is_ours) {
            continue;
        }
        let kind = statat(&found, name, AtFlags::SYMLINK_NOFOLLOW).map(|it| it.st_mode);
        if kind.is_ok_and(|mode| FileType::from_raw_mode(mode) == FileType::RegularFile) {
            unlinkat(&found, name, AtFlags::empty())?;
            is_changed = true;
        }
    }
    match unlinkat(&parent, last.0.as_os_str(), AtFlags::REMOVEDIR) {
        Ok(()) => Ok(true),
        // Other files are in it, or another process was faster.
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOENT) => Ok(is_changed),
        Err(error) => Err(error.into()),
    }
}

const fn file_flags() -> OFlags {
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK)
}

const fn folder_flags() -> OFlags {
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::DIRECTORY)
}

fn enter(parent: &OwnedFd, name: &PlainName) -> Result<OwnedFd, Errno> {
    openat(parent, name.0.as_os_str(), folder_flags() | OFlags::NOFOLLOW, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn plain(name: &str) -> PlainName {
        PlainName::new(name).unwrap()
    }

    #[test]
    fn plain_name_leaves_its_folder_in_no_spelling() {
        for name in ["a", "a b", "..a", ".a", "a..", "\u{e9}"] {
            assert_eq!(plain(name).in_folder(Path::new("/f")), Path::new("/f").join(name));
        }
        for name in ["", ".", "..", "/", "a/", "/a", "a/b", "a/../b", "./a", "a\0b"] {
            assert_eq!(PlainName::new(name), None, "{name:?}");
        }
        let folder = Path::new("/state/spool");
        assert_eq!(PlainName::of(Path::new("/state/spool/a"), folder), Some(plain("a")));
        for path in ["/state/spool", "/state/spool/", "/state/spool/../x", "/state/spool/a/b"] {
            assert_eq!(PlainName::of(Path::new(path), folder), None, "{path}");
        }
        assert_eq!(PlainName::of(Path::new("/state/spoolx/a"), folder), None);
        assert_eq!(PlainName::of(Path::new("/state/spool/./a"), folder), None);
    }

    #[test]
    fn only_files_with_our_names_are_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("segments/run");
        fs::create_dir_all(run.join("ours-folder")).unwrap();
        for name in ["ours-1", "ours-2", "mine"] {
            fs::write(run.join(name), "").unwrap();
        }
        symlink("mine", run.join("ours-link")).unwrap();
        let below = [plain("segments"), plain("run")];
        let is_ours = |name: &str| name.starts_with("ours");
        assert!(remove_files(folder.path(), &below, is_ours).unwrap());
        let mut left: Vec<_> =
            fs::read_dir(&run).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mine", "ours-folder", "ours-link"]);
        assert!(!remove_files(folder.path(), &below, is_ours).unwrap());
        for name in ["mine", "ours-link"] {
            fs::remove_file(run.join(name)).unwrap();
        }
        fs::remove_dir(run.join("ours-folder")).unwrap();
        assert!(remove_files(folder.path(), &below, is_ours).unwrap());
        assert!(!run.exists() && !remove_files(folder.path(), &below, is_ours).unwrap());
    }

    #[test]
    fn linked_folder_is_not_entered() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir(elsewhere.path().join("run")).unwrap();
        fs::write(elsewhere.path().join("run/file"), "").unwrap();
        symlink(elsewhere.path(), folder.path().join("segments")).unwrap();
        let below = [plain("segments"), plain("run")];
        assert!(remove_files(folder.path(), &below, |_| true).is_err());
        fs::remove_file(folder.path().join("segments")).unwrap();
        fs::create_dir(folder.path().join("segments")).unwrap();
        symlink(elsewhere.path().join("run"), folder.path().join("segments/run")).unwrap();
        assert!(remove_files(folder.path(), &below, |_| true).is_err());
        assert!(elsewhere.path().join("run/file").exists());
    }

    /// Opens a pipe to read it, without waiting for a writer.
    fn open_pipe(path: &Path) -> OwnedFd {
        openat(CWD, path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap()
    }

    #[test]
    fn pipes_and_links_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "x").unwrap();
        symlink("file", path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(sync_folder(folder.path()).is_ok());
        assert!(open_folder(&path("pipe")).is_err() && open_folder(&path("file")).is_err());
        let mut ways = [OpenOptions::new(), OpenOptions::new(), OpenOptions::new()];
        ways[0].read(true);
        ways[1].append(true).create(true);
        ways[2].write(true).create(true).truncate(true);
        // With a reader, a pipe can be opened to write as well.
        let reader = open_pipe(&path("pipe"));
        for options in &ways {
            assert!(open_regular_with(&path("file"), options).is_ok(), "{options:?}");
            for name in ["link", "pipe"] {
                assert!(open_regular_with(&path(name), options).is_err(), "{name} {options:?}");
            }
        }
        drop(reader);
        assert!(ways.iter().all(|options| open_regular_with(&path("pipe"), options).is_err()));
    }
}
