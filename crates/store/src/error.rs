use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::key::Key;
use crate::limits::LimitExceeded;
use crate::store::{SessionId, Versioned};

/// Kind of a fault, as far as it matters to the caller or the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// It cannot be reached, or has no leader.
    Unreachable,
    /// It did not answer in time.
    TimedOut,
    /// It is too busy: another process has it, or there are too many requests.
    Busy,
    /// It has no room left.
    Full,
    /// It does not let us.
    Denied,
    /// What is stored cannot be read, or is not what we wrote.
    Damaged,
    /// Anything else.
    Other,
}

/// What went wrong, for people.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Fault {
    /// Something that went wrong.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// The same, with what caused it.
    #[must_use]
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What went wrong, without its cause.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Why nothing could be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer now. Asking again does no harm.
    #[error("the store does not answer: {0}")]
    Unavailable(#[source] Fault),
    /// What is stored cannot be read. Asking again does not help.
    #[error("the store is damaged: {0}")]
    Corrupt(#[source] Fault),
}

impl StoreError {
    /// What went wrong.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        match self {
            Self::Unavailable(fault) | Self::Corrupt(fault) => fault,
        }
    }
}

/// Why a scan did not go on.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScanError {
    /// The state that the scan is of is gone: start again.
    #[error("the state that was scanned is no longer kept")]
    Moved,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a watch ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WatchError {
    /// Changes were missed: read everything again and watch from there.
    #[error("changes were missed")]
    Gap,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a session could not be opened, kept or closed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The session has ended, and what belonged to it is gone or going.
    #[error("session {0} has ended")]
    Gone(SessionId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The expectations of a commit were not true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What was found under each key that something was expected of, in the order in which it was:
    /// at the moment of the commit, or right after it.
    pub found: Vec<(Key, Option<Versioned>)>,
}

/// Why a commit did not happen, or may not have.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// An expectation was not true; nothing happened.
    #[error("the store holds something else than expected")]
    Conflict(Conflict),
    /// A put belongs to a session that has ended; nothing happened.
    #[error("session {0} has ended")]
    SessionGone(SessionId),
    /// The commit is too large; nothing happened.
    #[error(transparent)]
    TooLarge(#[from] LimitExceeded),
    /// Nothing happened. Asking again does no harm.
    #[error("the store has not applied the commit: {0}")]
    NotApplied(#[source] Fault),
    /// It may have happened, or may still happen.
    #[error("whether the store has applied the commit is unknown: {0}")]
    Unknown(#[source] Fault),
    /// What is stored cannot be read. Asking again does not help.
    #[error("the store is damaged: {0}")]
    Corrupt(#[source] Fault),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_class_and_keeps_its_cause() {
        let cause = std::io::Error::other("no space left on device");
        let fault = Fault::new(FaultKind::Full, "the disk of state.db is full").because(cause);
        let error = CommitError::NotApplied(fault);
        let text = error.to_string();
        assert_eq!(text, "the store has not applied the commit: the disk of state.db is full");
        let cause = error.source().and_then(Error::source).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("no space left on device"));
    }
}
