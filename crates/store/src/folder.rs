//! State folders: who owns one, and how one is created.
//!
//! State names commands to run and files to delete. So the state of another user is refused, unless
//! the caller trusts its folder.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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
        match first_foreign(folder, rustix::process::geteuid().as_raw()) {
            None => Ok(FolderOwner::Caller),
            Some(_) if self.has(folder) => Ok(FolderOwner::Trusted),
            Some(foreign) => Err(foreign),
        }
    }

    fn has(&self, folder: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_it = |trusted: &PathBuf| trusted.as_os_str() == ALL || real(trusted) == real(folder);
        self.0.iter().any(is_it)
    }
}

/// The first entry that another user owns. Of a link, the link and its target count.
fn first_foreign(folder: &Path, caller: u32) -> Option<ForeignState> {
    ENTRIES.iter().find_map(|entry| {
        let path = if entry.is_empty() { folder.to_owned() } else { folder.join(entry) };
        let found = [fs::symlink_metadata(&path), fs::metadata(&path)];
        let owner = found.into_iter().flatten().map(|it| it.uid()).find(|uid| *uid != caller)?;
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
        let folder = tempfile::tempdir().unwrap();
        let ours = fs::metadata(folder.path()).unwrap().uid();
        fs::write(folder.path().join("state.db"), "").unwrap();
        assert!(first_foreign(folder.path(), ours).is_none());
        // To any other user, all of it is foreign, and the folder comes first.
        let foreign = first_foreign(folder.path(), ours + 1).unwrap();
        assert_eq!((foreign.path.as_path(), foreign.owner), (folder.path(), ours));
        assert!(first_foreign(&folder.path().join("missing"), ours).is_none());
        if ours != 0 {
            return;
        }
        for entry in ["state.db", "locks", "runs"] {
            let path = folder.path().join(entry);
            let _absent = fs::remove_file(&path);
            std::os::unix::fs::symlink("nowhere", &path).unwrap();
            std::os::unix::fs::lchown(&path, Some(4_242), None).unwrap();
            let foreign = first_foreign(folder.path(), ours).unwrap();
            assert_eq!((foreign.path, foreign.owner), (path.clone(), 4_242));
            fs::remove_file(path).unwrap();
        }
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
