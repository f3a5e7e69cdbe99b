use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::key::Key;
use crate::limits::LimitExceeded;
use crate::store::{SessionId, Versioned};

/// The kind of a fault, as callers and operators distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The store cannot be reached, or has no leader.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The store is busy: another process uses it, or there are too many requests.
    Busy,
    /// The store is full.
    Full,
    /// The store denies access.
    Denied,
    /// The stored bytes are unreadable, or differ from what was written.
    Damaged,
    /// Anything else.
    Other,
}

/// A fault of a store, described for users.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    message: Arc<str>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault without a cause.
    #[must_use]
    pub fn new(kind: FaultKind, message: impl Into<Arc<str>>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The description without the cause.
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

/// Why a read failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store does not answer. A retry is safe.
    #[error("the store does not answer: {0}")]
    Unavailable(#[source] Fault),
    /// The stored bytes are damaged. A retry does not help.
    #[error("the store is damaged: {0}")]
    Corrupt(#[source] Fault),
}

impl StoreError {
    /// The fault.
    #[must_use]
    pub const fn fault(&self) -> &Fault {
        match self {
            Self::Unavailable(fault) | Self::Corrupt(fault) => fault,
        }
    }
}

/// Why a scan failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ScanError {
    /// The store no longer has the revision of the scan. Start the scan again.
    #[error("the revision of the scan was compacted")]
    Moved,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a watch failed or ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WatchError {
    /// The watch missed changes. Read the range again and watch from that revision.
    #[error("changes were missed")]
    Gap,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a session could not be opened, kept or closed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SessionError {
    /// The session has ended. Its keys are deleted, or will be.
    #[error("session {0} has ended")]
    Gone(SessionId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// An expectation of a commit did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Each expected key and its value, in the order of the expectations, at the time of the commit
    /// or right after it.
    pub found: Vec<(Key, Option<Versioned>)>,
}

/// Why a commit was not applied, or may not have been.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// An expectation did not hold. Nothing was applied.
    #[error("the store holds other values than expected")]
    Conflict(Conflict),
    /// A write belongs to a session that has ended. Nothing was applied.
    #[error("session {0} has ended")]
    SessionGone(SessionId),
    /// The commit is too large. Nothing was applied.
    #[error(transparent)]
    TooLarge(#[from] LimitExceeded),
    /// Nothing was applied. A retry is safe.
    #[error("the store has not applied the commit: {0}")]
    NotApplied(#[source] Fault),
    /// The commit may have been applied, or may still be.
    #[error("whether the store has applied the commit is unknown: {0}")]
    Unknown(#[source] Fault),
    /// The stored bytes are damaged. A retry does not help.
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
