//! Failures of a database in a folder, and the errors that callers get.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{ErrorCode, ffi};

use crate::error::{CommitError, Fault, FaultKind, StoreError};
use crate::folder::ForeignState;

/// Why a folder cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum FileOpenError {
    /// The folder cannot be created or written.
    #[error("the folder {} cannot be written: {source}", folder.display())]
    Unwritable {
        /// The folder.
        folder: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The folder is on a network file system, where locks are unreliable.
    #[error(
        "the folder {} is on a network file system ({kind}), where file locks are \
         unreliable; use a local disk or an etcd store",
        folder.display()
    )]
    NetworkFileSystem {
        /// The folder.
        folder: PathBuf,
        /// The kind of file system.
        kind: &'static str,
    },
    /// Another process is opening or closing the store, and has sent no heartbeat for too long.
    #[error(
        "the store in {} is being opened by {}, without a heartbeat for {timeout:?}; wait \
         until it has checked the store, or stop it",
        folder.display(),
        process.map_or("another process".to_owned(), |process| format!("process {process}"))
    )]
    Busy {
        /// The folder.
        folder: PathBuf,
        /// The id of that process, if known.
        process: Option<u32>,
        /// How long this process waited.
        timeout: Duration,
    },
    /// The state belongs to another user whom the caller does not trust.
    #[error(transparent)]
    Untrusted(#[from] ForeignState),
    /// Another folder got the path while the store was opened.
    #[error("the folder {} was replaced while it was opened; try again", folder.display())]
    Replaced {
        /// The folder.
        folder: PathBuf,
    },
    /// The database is of a later version of this program.
    #[error(
        "{} has schema version {found}, and this program supports versions up to {known}; \
         use a newer program",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The latest that this program supports.
        known: i64,
    },
    /// The database belongs to another program.
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
        /// The damage.
        what: String,
    },
    /// The system or the database failed.
    #[error("{} cannot be opened: {source}", path.display())]
    Failed {
        /// The database.
        path: PathBuf,
        /// The error.
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

/// A failure while the database was used.
#[derive(Debug)]
pub(super) enum SqliteFailure {
    Sqlite(rusqlite::Error),
    /// The database answers, but with data that was never written.
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

    /// Whether a sync failed. Then the content of the disk is unknown, and a second sync that
    /// succeeds would not show it.
    pub(super) fn is_failed_sync(&self) -> bool {
        let extended = self.sqlite().map(|error| error.extended_code);
        matches!(extended, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
    }

    /// Whether the connection must be closed after this failure.
    pub(super) fn spoils_connection(&self) -> bool {
        let code = self.sqlite().map(|error| error.code);
        !matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::DiskFull)
        )
    }

    /// Whether a transaction that failed during its commit is surely undone.
    ///
    /// A failed write is incomplete, and the next write overwrites it. After a failed sync, or a
    /// failed write of the log's index, the log may hold the whole transaction, and a crash would
    /// restore it.
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

    /// The error of a commit that failed before its transaction was committed.
    pub(super) fn before_commit(self, path: &Path) -> CommitError {
        match self.into_fault(path) {
            fault if fault.kind == FaultKind::Damaged => CommitError::Corrupt(fault),
            fault => CommitError::NotApplied(fault),
        }
    }

    /// The error of a commit whose transaction failed while it was committed.
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
    fn only_an_incomplete_write_is_surely_undone() {
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
