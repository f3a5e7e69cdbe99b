//! What a run returns: its outcome, or an error.

use std::fmt;

use shardwright_worker::WorkerError;
use shardwright_worker::connector::ConnectorError;

/// How a run ended for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All items are done or parked.
    Finished,
    /// The process was stopped; running it again resumes the run.
    Stopped,
}

/// The outcome of a run so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: RunEnd,
    /// Items done by all processes together.
    pub items: u64,
    /// Items that failed and were parked.
    pub parked: u64,
    /// The path or URL of the result file; none before the run is finished.
    pub results: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, items, parked, .. } = self;
        write!(f, "{items} items done, {parked} parked")?;
        match end {
            RunEnd::Finished => Ok(()),
            RunEnd::Stopped => f.write_str("; stopped"),
        }
    }
}

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no store.
    #[error("{0}")]
    Url(String),
    /// The name of a run is too long or has characters beside letters, digits, `-`, `_`, `.`.
    #[error("{0}")]
    Name(String),
    /// The caller is not on a tokio runtime.
    #[error("there is no tokio runtime")]
    NoRuntime,
    /// The run has no source.
    #[error("the run {name} needs a source")]
    NoSource {
        /// Its name.
        name: String,
    },
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] ConnectorError),
    /// A worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The run was paused, cancelled or failed.
    #[error("the run {name} is {status}")]
    NotActive {
        /// Its name.
        name: String,
        /// Its status.
        status: &'static str,
    },
    /// The run cannot be started, joined or concluded.
    #[error("{message}")]
    Job {
        /// What went wrong, with its causes.
        message: String,
        /// The error itself.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn job(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self::Job { message: format!("{error:#}"), source: error.into_boxed_dyn_error() }
    }
}
