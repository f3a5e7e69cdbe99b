//! Why a source cannot be read.

use std::io;
use std::path::PathBuf;

use shardwright_contracts::Redacted;

use super::KeyRange;

/// Why a source cannot be read. A problem of a single item is a [skip report](super::SkipReport)
/// instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// A call of the operating system failed.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Whether a retry may succeed.
        transient: bool,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The root of a tree is not a folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The given path.
        path: PathBuf,
    },
    /// The root of a tree is, or is inside of, a folder with the state of runs.
    #[error("{} is part of the state of runs, and cannot be a source", path.display())]
    StateFolder {
        /// The given path.
        path: PathBuf,
    },
    /// Rows are read from regular files only.
    #[error("{} is not a regular file; spool a pipe into a file first", path.display())]
    NotAFile {
        /// The given path.
        path: PathBuf,
    },
    /// A row exceeds the limit.
    #[error("row {} of {} is longer than {limit} bytes", row.saturating_add(1), path.display())]
    RowTooLong {
        /// The file.
        path: PathBuf,
        /// The row number, from 0.
        row: u64,
        /// The limit.
        limit: usize,
    },
    /// The file changed after it was opened.
    #[error("{} has changed since it was opened: {how}", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
        /// What changed.
        how: &'static str,
    },
    /// The URL does not name an object store.
    #[error("{url} is not the URL of an object store: {reason}")]
    BadUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A glob cannot be compared with paths.
    #[error("`{glob}` is not a valid glob: {reason}")]
    BadGlob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An object store returned an error.
    #[error("cannot {doing} {url}")]
    ObjectStore {
        /// The attempted operation.
        doing: &'static str,
        /// The URL of the store.
        url: String,
        /// Whether a retry may succeed.
        transient: bool,
        /// The error of the store.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An object store was expected to list in key order, but does not.
    #[error("{url} does not list its objects in byte order; use `ListingOrder::Folders`")]
    OutOfOrder {
        /// The URL of the store.
        url: String,
    },
    /// A page breaks the contract of [`Connector::page`](super::Connector::page).
    #[error("the source returned an invalid page: {problem}")]
    InvalidPage {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A proposed split is not strictly inside its range.
    #[error(
        "the source proposed the split {} outside of the range from {} to {}",
        Redacted(boundary), Redacted(&range.start), Redacted(&range.end)
    )]
    InvalidSplit {
        /// The range to split.
        range: KeyRange,
        /// The proposed split. It is a key, so it is printed as its length.
        boundary: Box<[u8]>,
    },
    /// The source has a key above the default ranges. No worker would ever read it.
    #[error(
        "the source has keys at or above 256 bytes of 0xff, which no default range holds; \
         implement `initial_ranges`"
    )]
    KeyAboveRanges,
    /// A custom source failed.
    #[error("the source failed")]
    Other {
        /// Whether a retry may succeed.
        transient: bool,
        /// The error of the source.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The runtime is shutting down.
    #[error("stopped while reading")]
    Stopped,
}

impl ConnectorError {
    /// Whether a retry may succeed.
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
