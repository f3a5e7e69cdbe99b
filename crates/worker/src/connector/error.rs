//! Why a source cannot be read.

use std::io;
use std::path::PathBuf;

/// Why a source cannot be read. What concerns a single item of many is a
/// [skip report](super::SkipReport) instead.
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
        /// Whether another attempt may go better.
        transient: bool,
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
            Self::Io { transient, .. }
            | Self::ObjectStore { transient, .. }
            | Self::Other { transient, .. } => *transient,
            _ => false,
        }
    }
}
