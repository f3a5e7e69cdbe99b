//! What can go wrong with a database in a folder, and what that means to a caller.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{ErrorCode, ffi};

use crate::error::{CommitError, Fault, FaultKind, StoreError};

/// Why a folder cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum FileOpenError {
    /// The folder cannot be made, or nothing can be written in it.
    #[error("the folder {} cannot be written: {source}", folder.display())]
    Unwritable {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The folder is on another machine, where locks do not hold.
    #[error(
        "the folder {} is on a network file system ({kind}), where file locks cannot be relied \
         on; use a local disk, or a store that is made for many machines",
        folder.display()
    )]
    NetworkFileSystem {
        /// The folder.
        folder: PathBuf,
        /// What kind of file system it is.
        kind: &'static str,
    },
    /// Another process is opening or closing the store, and has not shown for too long that it
    /// lives.
    #[error(
        "the store in {} is being opened by {}, which has not shown for {patience:?} that it \
         lives; after a crash it first checks all that is stored",
        folder.display(),
        process.map_or("another process".to_owned(), |process| format!("process {process}"))
    )]
    Busy {
        /// The folder.
        folder: PathBuf,
        /// Who it is, if it has said so.
        process: Option<u32>,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The database is of a later version of this program.
    #[error(
        "{} has schema version {found}, and this program knows versions up to {known}; use a \
         newer program",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// The database belongs to some other program.
    #[error("{} is a database of another program; use another folder", path.display())]
    Foreign {
        /// The database.
        path: PathBuf,
    },
    /// The database is damaged.
    #[error(
        "{} is damaged: {what}; move the folder away and restore a backup, or start with an \
         empty one",
        path.display()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The system or the database failed.
    #[error("{} cannot be opened: {source}", path.display())]
    Failed {
        /// The database.
        path: PathBuf,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl FileOpenError {
    pub(super) fn from_failure(path: &Path, failure: SqliteFailure) -> Self {
        let path = path.to_owned();
        match failure {
            SqliteFailure::Damaged(what) => Self::Damaged { path, what },
            SqliteFailure::Sqlite(error) if is_damage(&error) => {
                Self::Damaged { path, what: error.to_string() }
            }
            SqliteFailure::Sqlite(error) => Self::Failed { path, source: Box::new(error) },
        }
    }
}

/// What went wrong while the database was used.
#[derive(Debug)]
pub(super) enum SqliteFailure {
    Sqlite(rusqlite::Error),
    /// The database answers, but with what we never wrote.
    Damaged(String),
}

impl From<rusqlite::Error> for SqliteFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl SqliteFailure {
    pub(super) fn is_busy(&self) -> bool {
        let code = self.sqlite().map(|error| error.code);
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    pub(super) fn is_full(&self) -> bool {
        self.sqlite().is_some_and(|error| {
            error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_SHMSIZE
        })
    }

    /// Whether a sync failed. Then it is unknown what is on the disk, and syncing again, which may
    /// well succeed, would not show it.
    pub(super) fn is_failed_sync(&self) -> bool {
        let extended = self.sqlite().map(|error| error.extended_code);
        matches!(extended, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
    }

    /// Whether a connection that has seen this should be thrown away.
    pub(super) fn spoils_connection(&self) -> bool {
        let code = self.sqlite().map(|error| error.code);
        !matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull)
        )
    }

    /// Whether a transaction that ended with this in the middle of its commit is surely undone.
    ///
    /// A write that failed never was whole, and is overwritten by the next one. After a failed
    /// sync, or when only the index beside the log could not be written, the log may hold the whole
    /// transaction, and a crash would bring it back.
    fn is_undone(&self) -> bool {
        let Some(error) = self.sqlite() else { return false };
        match error.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull => true,
            _ => error.extended_code == ffi::SQLITE_IOERR_WRITE,
        }
    }

    pub(super) fn store_error(self, path: &Path) -> StoreError {
        match self.into_fault(path) {
            fault if fault.kind == FaultKind::Damaged => StoreError::Corrupt(fault),
            fault => StoreError::Unavailable(fault),
        }
    }

    /// What a caller learns of a commit that failed before its transaction was to be committed.
    pub(super) fn before_commit(self, path: &Path) -> CommitError {
        match self.into_fault(path) {
            fault if fault.kind == FaultKind::Damaged => CommitError::Corrupt(fault),
            fault => CommitError::NotApplied(fault),
        }
    }

    /// What a caller learns of a commit whose transaction failed while it was committed.
    pub(super) fn in_commit(self, path: &Path) -> CommitError {
        let undone = self.is_undone();
        let fault = self.into_fault(path);
        if undone { CommitError::NotApplied(fault) } else { CommitError::Unknown(fault) }
    }

    pub(super) fn into_fault(self, path: &Path) -> Fault {
        let path = path.display();
        match self {
            Self::Damaged(what) => Fault::new(
                FaultKind::Damaged,
                format!("{path} is damaged: {what}; stop all users and restore a backup"),
            ),
            Self::Sqlite(error) => {
                let (kind, what) = describe(&error);
                Fault::new(kind, format!("{path} {what}: {error}")).because(error)
            }
        }
    }

    fn sqlite(&self) -> Option<ffi::Error> {
        match self {
            Self::Sqlite(rusqlite::Error::SqliteFailure(error, _)) => Some(*error),
            _ => None,
        }
    }
}

fn describe(error: &rusqlite::Error) -> (FaultKind, &'static str) {
    if is_damage(error) {
        return (FaultKind::Damaged, "is damaged; stop all users and restore a backup");
    }
    let Some(failure) = error.sqlite_error() else {
        return (FaultKind::Other, "cannot be used");
    };
    match (failure.code, failure.extended_code) {
        (ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE) => {
            (FaultKind::Full, "is on a disk that is full")
        }
        (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _) => {
            (FaultKind::Busy, "is locked by another process")
        }
        (ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen, _) => {
            (FaultKind::Denied, "cannot be written")
        }
        _ => (FaultKind::Other, "cannot be used"),
    }
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
        || matches!(
            error,
            rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(extended_code: i32) -> SqliteFailure {
        let error = ffi::Error::new(extended_code);
        SqliteFailure::Sqlite(rusqlite::Error::SqliteFailure(error, None))
    }

    #[test]
    fn only_a_write_that_never_was_whole_is_surely_undone() {
        let path = Path::new("state.db");
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_BUSY] {
            let error = failed(code).in_commit(path);
            assert!(matches!(error, CommitError::NotApplied(_)), "{code}: {error}");
        }
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_NOMEM] {
            let error = failed(code).in_commit(path);
            assert!(matches!(error, CommitError::Unknown(_)), "{code}: {error}");
        }
        assert!(failed(ffi::SQLITE_IOERR_FSYNC).is_failed_sync());
        assert!(!failed(ffi::SQLITE_IOERR_WRITE).is_failed_sync());
    }

    #[test]
    fn faults_name_the_file_and_their_kind() {
        let path = Path::new("/data/state.db");
        let cases = [
            (ffi::SQLITE_FULL, FaultKind::Full),
            (ffi::SQLITE_IOERR_SHMSIZE, FaultKind::Full),
            (ffi::SQLITE_BUSY, FaultKind::Busy),
            (ffi::SQLITE_READONLY, FaultKind::Denied),
            (ffi::SQLITE_CORRUPT, FaultKind::Damaged),
            (ffi::SQLITE_NOTADB, FaultKind::Damaged),
            (ffi::SQLITE_IOERR_READ, FaultKind::Other),
        ];
        for (code, kind) in cases {
            let fault = failed(code).into_fault(path);
            assert_eq!(fault.kind, kind, "{code}");
            assert!(fault.message().starts_with("/data/state.db "), "{fault}");
        }
        assert!(matches!(failed(ffi::SQLITE_CORRUPT).store_error(path), StoreError::Corrupt(_)));
        let before = failed(ffi::SQLITE_IOERR_FSYNC).before_commit(path);
        assert!(matches!(before, CommitError::NotApplied(_)));
    }
}
