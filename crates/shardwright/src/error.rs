use shardwright_worker::WorkerError;
use shardwright_worker::connector::ConnectorError;

/// A result of this library.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a run could not be begun or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL names no store.
    #[error("{0}")]
    Url(String),
    /// The name of a run is too long or has other characters than letters, digits, `-`, `_`, `.`.
    #[error("{0}")]
    Name(String),
    /// The call is not made on a tokio runtime.
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
    /// The work cannot go on.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The run was paused, cancelled or failed.
    #[error("the run {name} is {status}")]
    NotActive {
        /// Its name.
        name: String,
        /// What it is instead.
        status: &'static str,
    },
    /// The run cannot be begun, joined or concluded.
    #[error("{message}")]
    Job {
        /// What went wrong, with its causes.
        message: String,
        /// The same as an error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn job(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self::Job { message: format!("{error:#}"), source: error.into_boxed_dyn_error() }
    }
}
