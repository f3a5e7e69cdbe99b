//! The outcome of a run, and its errors.

use std::fmt;

use shardwright_store::{ForeignState, TrustedFolders};
use shardwright_worker::WorkerError;
use shardwright_worker::connector::ConnectorError;

/// How a run ended for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All items are done or parked.
    Finished,
    /// The process was stopped. Running the same name again resumes the run.
    Stopped,
}

/// The outcome of a run, over all processes that worked on it so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the run ended for this process.
    pub end: RunEnd,
    /// Items done.
    pub items: u64,
    /// Items that failed and were parked.
    pub parked: u64,
    /// The path or URL of the result file. None before the run is finished.
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
    /// The text is not the name of a run.
    #[error(
        "{name:?} is not a run name: use 1 to 40 letters, digits, -, _ or ., without a leading dot"
    )]
    Name {
        /// The text.
        name: String,
    },
    /// The caller is not on a tokio runtime.
    #[error("a run must be started on a tokio runtime")]
    NoRuntime,
    /// The run has no source.
    #[error("run {name} has no source; call `source` before its handler")]
    NoSource {
        /// The name of the run.
        name: String,
    },
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] ConnectorError),
    /// A worker failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The run was paused, cancelled or failed.
    #[error("run {name} is {status}; {}", remedy(name, status))]
    NotActive {
        /// The name of the run.
        name: String,
        /// Its status.
        status: &'static str,
    },
    /// The run could not be started, joined or finished, for example because its source changed.
    #[error("{message}")]
    Job {
        /// What went wrong, with its causes.
        message: String,
        /// The error itself.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What to do with a run that is not active.
fn remedy(name: &str, status: &str) -> String {
    match status {
        "paused" => format!("`shardwright resume {name}` resumes it"),
        _ => "call `Run::fresh` to start it over, or choose another name".to_owned(),
    }
}

impl Error {
    /// State of another user was refused.
    pub(crate) fn foreign(foreign: ForeignState) -> Self {
        let variable = TrustedFolders::VARIABLE;
        let message = format!("{foreign}; to use it, list the folder in {variable}");
        Self::Job { message, source: Box::new(foreign) }
    }

    pub(crate) fn job(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self::Job { message: format!("{error:#}"), source: error.into_boxed_dyn_error() }
    }
}
