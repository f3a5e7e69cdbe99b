//! Why a source cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why a source cannot be read. What concerns a single item of many is a
/// [notice](super::Notice) instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// The system refused something without which nothing goes on.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A tree has to be a folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// What was given.
        path: PathBuf,
    },
    /// The tree is, or lies in, a folder that holds the state of a run.
    #[error("{} belongs to the state of a run", path.display())]
    StateFolder {
        /// What was given.
        path: PathBuf,
    },
    /// Lines are read from regular files only.
    #[error("{} is not a regular file; a pipe has to be spooled first", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
    },
    /// A row is longer than a row may be.
    #[error("row {row} (counted from 0) of {} is longer than {limit} bytes", path.display())]
    RowTooLong {
        /// The file.
        path: PathBuf,
        /// The row's number, counted from zero.
        row: u64,
        /// The limit.
        limit: usize,
    },
    /// The file is not the one it was when it was opened.
    #[error("{} has changed since it was opened: {how}", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
        /// How that shows.
        how: &'static str,
    },
    /// An address that leads to no object store.
    #[error("{url} is no object store: {reason}")]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object store answered with a failure.
    #[error("cannot {doing} {url}")]
    ObjectStore {
        /// What was tried.
        doing: &'static str,
        /// On what.
        url: String,
        /// Whether another attempt may go better.
        transient: bool,
        /// The store's answer.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store that was believed to list in key order does not.
    #[error("{url} does not list its objects in byte order; list it folder by folder")]
    OutOfOrder {
        /// The store.
        url: String,
    },
    /// A source of a user's own failed.
    #[error("the source says no")]
    Other {
        /// Whether another attempt may go better.
        transient: bool,
        /// What it says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The runtime is shutting down.
    #[error("stopped while reading")]
    Stopped,
}

impl ConnectorError {
    /// Whether the same call may succeed a little later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Io { source, .. } => may_pass(source),
            Self::ObjectStore { transient, .. } | Self::Other { transient, .. } => *transient,
            _ => false,
        }
    }

    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source }
    }
}

/// Whether an error speaks of what the process or machine lacks, or of a disk or a server that is
/// in trouble, and not of the thing asked for.
pub(super) fn may_pass(error: &io::Error) -> bool {
    is_shortage(error) || is_trouble(error)
}

/// Whether an error speaks of what the process or machine lacks. Whatever is asked for, it would
/// be the same.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Whether an error speaks of a disk or a server in trouble, all of it or the place asked for.
pub(super) fn is_trouble(error: &io::Error) -> bool {
    // A handle that went stale is looked up anew the next time.
    let troubles = [
        Errno::IO,
        Errno::STALE,
        Errno::TIMEDOUT,
        Errno::BUSY,
        Errno::NOTCONN,
        Errno::CONNRESET,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::REMOTEIO,
    ];
    Errno::from_io_error(error).is_some_and(|errno| troubles.contains(&errno))
}
