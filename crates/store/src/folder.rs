//! State folders: who owns one, and how one is created.
//!
//! State names commands to run and files to delete. So the state of another user is refused, unless
//! the caller trusts its folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};

/// Entries of a state folder that another user could have put there.
const ENTRIES: &[&str] =
    &["", "state.db", "state.db-wal", "state.db-shm", "locks", "runs", "spool", "index"];
/// Entries of a state folder that hold commands: the folder itself, and the database.
const WRITTEN: &[&str] = &["", "state.db", "state.db-wal", "state.db-shm"];
/// Permission bits that let the group or all users write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Trusts all folders.
const ALL: &str = "*";

/// Whose state is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderOwner {
    /// The caller's, or there is none yet.
    Caller,
    /// Another user's whom the caller trusts.
    Trusted,
}

/// The state in a folder belongs to another user.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} belongs to user {owner}, not to user {caller}; its runs could execute that user's \
     commands with your rights",
    path.display()
)]
pub struct ForeignState {
    /// The folder, or the file in it.
    pub path: PathBuf,
    /// The id of the user that owns it.
    pub owner: u32,
    /// The effective user id of this process.
    pub caller: u32,
}

/// Folders whose state the caller uses even if another user owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedFolders(Vec<PathBuf>);

impl TrustedFolders {
    /// The environment variable with trusted folders, separated by colons. `*` trusts all folders.
    pub const VARIABLE: &str = "SHARDWRIGHT_TRUSTED_FOLDERS";

    /// Trusts these folders.
    #[must_use]
    pub const fn new(folders: Vec<PathBuf>) -> Self {
        Self(folders)
    }

    /// Trusts the folders in the environment variable.
    #[must_use]
    pub fn from_env() -> Self {
        let folders = std::env::var_os(Self::VARIABLE).unwrap_or_default();
        Self(std::env::split_paths(&folders).filter(|path| !path.as_os_str().is_empty()).collect())
    }

    /// The folders.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }

    /// Refuses the state of another user, unless its folder is trusted. Nothing is created.
    pub fn check(&self, folder: &Path) -> Result<FolderOwner, ForeignState> {
        OpenFolder::open(folder).map_or(Ok(FolderOwner::Caller), |open| self.check_open(&open))
    }

    /// Does the same for a folder that was opened, whatever its path names now.
    pub(crate) fn check_open(&self, open: &OpenFolder) -> Result<FolderOwner, ForeignState> {
        let caller = rustix::process::geteuid().as_raw();
        match first_foreign(&open.path, caller, |entry| open.owners(entry)) {
            None => Ok(FolderOwner::Caller),
            Some(_) if self.has(&open.path) => Ok(FolderOwner::Trusted),
            Some(foreign) => Err(foreign),
        }
    }

    fn has(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_it = |trusted: &PathBuf| trusted.as_os_str() == ALL || real(trusted) == real(folder);
        self.0.iter().any(is_it)
    }
}

/// A folder as it was opened. Its path may name another folder later.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    path: PathBuf,
    handle: OwnedFd,
    /// The owner of the path, which may be a link.
    path_owner: Option<u32>,
}

impl OpenFolder {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path_owner = fs::symlink_metadata(path).ok().map(|it| it.uid());
        let handle = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path: path.to_owned(), handle, path_owner })
    }

    /// Whether the path still names this folder.
    pub(crate) fn is_in_place(&self) -> bool {
        let (ours, found) = (fstat(&self.handle), fs::metadata(&self.path));
        ours.is_ok_and(|ours| {
            found.is_ok_and(|found| (found.dev(), found.ino()) == (ours.st_dev, ours.st_ino))
        })
    }

    /// The owners of an entry, or of the folder itself. Of a link, the link and its target count.
    fn owners(&self, entry: &str) -> Vec<u32> {
        if entry.is_empty() {
            let own = fstat(&self.handle).ok().map(|it| it.st_uid);
            return self.path_owner.into_iter().chain(own).collect();
        }
        let found = [AtFlags::SYMLINK_NOFOLLOW, AtFlags::empty()];
        let owner = |flags| statat(&self.handle, entry, flags).ok().map(|it| it.st_uid);
        found.into_iter().filter_map(owner).collect()
    }
}

/// The first entry that another user owns, if `owners` names all owners of an entry.
fn first_foreign(
    folder: &Path,
    caller: u32,
    owners: impl Fn(&str) -> Vec<u32>,
) -> Option<ForeignState> {
    ENTRIES.iter().find_map(|entry| {
        let owner = owners(entry).into_iter().find(|owner| *owner != caller)?;
        let path = if entry.is_empty() { folder.to_owned() } else { folder.join(entry) };
        Some(ForeignState { path, owner, caller })
    })
}

/// Whether users other than the owner can write the state in a folder, and so the commands in it.
pub(crate) fn is_writable_by_others(folder: &Path) -> bool {
    WRITTEN.iter().any(|entry| {
        let found = fs::metadata(folder.join(entry));
        found.is_ok_and(|found| found.mode() & WRITABLE_BY_OTHERS != 0)
    })
}

/// Makes the names in a folder durable. Anything but a folder is an error, and a pipe is not waited
/// for.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(folder)?.sync_all()
}

/// Creates a folder that only its owner can enter. Missing folders above it get the usual
/// permissions, and an existing folder stays as it is.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        created => created,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn each_entry_of_another_user_is_refused() {
        let folder = Path::new("/state");
        for (caller, other) in [(0, 7), (7, 0), (7, 8)] {
            assert!(first_foreign(folder, caller, |_| vec![]).is_none(), "there is none yet");
            assert!(first_foreign(folder, caller, |_| vec![caller, caller]).is_none());
            for foreign in ENTRIES {
                // Of a link and its target, either may be of the other user.
                for owners in [[other, caller], [caller, other], [other, other]] {
                    let owners =
                        |entry: &str| if entry == *foreign { owners } else { [caller; 2] }.to_vec();
                    let found = first_foreign(folder, caller, owners).unwrap();
                    assert_eq!((found.owner, found.caller), (other, caller));
                    assert_eq!(found.path, folder.join(foreign), "{foreign}");
                }
            }
        }
    }

    #[test]
    fn owners_are_those_of_the_folder_that_was_opened() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("state");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("state.db"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("locks")).unwrap();
        let ours = fs::metadata(&folder).unwrap().uid();
        let open = OpenFolder::open(&folder).unwrap();
        // Another folder gets its path. It has no files.
        fs::rename(&folder, place.path().join("elsewhere")).unwrap();
        fs::create_dir(&folder).unwrap();
        assert!(!open.is_in_place());
        for (entry, expected) in
            [("", vec![ours; 2]), ("state.db", vec![ours; 2]), ("locks", vec![ours])]
        {
            assert_eq!(open.owners(entry), expected, "{entry}");
        }
        assert!(OpenFolder::open(&folder).unwrap().is_in_place());
        // The root folder belongs to another user, unless the tests run as root.
        let root = TrustedFolders::default().check(Path::new("/"));
        assert_eq!(root.is_ok(), rustix::process::geteuid().is_root());
        let missing = TrustedFolders::default().check(&folder.join("missing"));
        assert_eq!(missing.unwrap(), FolderOwner::Caller);
    }

    #[test]
    fn state_that_others_can_write_is_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("state.db");
        fs::write(&database, "").unwrap();
        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for (of_folder, of_database, expected) in [
            (0o700, 0o600, false),
            (0o755, 0o644, false),
            (0o770, 0o600, true),
            (0o1707, 0o600, true),
            (0o700, 0o660, true),
            (0o700, 0o602, true),
        ] {
            set(folder.path(), of_folder);
            set(&database, of_database);
            let shown = format!("{of_folder:o} {of_database:o}");
            assert_eq!(is_writable_by_others(folder.path()), expected, "{shown}");
        }
        assert!(!is_writable_by_others(&folder.path().join("missing")));
    }

    #[test]
    fn trusted_folder_is_named_in_any_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let spelled = folder.path().join("..").join(folder.path().file_name().unwrap());
        assert!(TrustedFolders::new(vec![spelled]).has(folder.path()));
        assert!(TrustedFolders::new(vec!["*".into()]).has(folder.path()));
        assert!(!TrustedFolders::new(vec!["/".into()]).has(folder.path()));
        assert!(!TrustedFolders::default().has(folder.path()));
    }

    #[test]
    fn private_folder_is_closed_to_others_and_its_parents_are_not() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("above/private");
        create_private_folder(&folder).unwrap();
        create_private_folder(&folder).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        assert_ne!(mode(folder.parent().unwrap()), 0o700);
        fs::write(place.path().join("file"), "").unwrap();
        assert!(create_private_folder(&place.path().join("file")).is_err());
    }
}
