//! Failures of a store, converted to the errors of a protocol.

use shardwright_contracts::InfraError;
use shardwright_store::{CommitError, ScanError, SessionError, StoreError};

use crate::Operation;

/// A failed read. Reads apply nothing.
pub fn read(operation: Operation, error: &StoreError) -> InfraError {
    failed(operation.load, error)
}

fn failed(operation: &'static str, error: &StoreError) -> InfraError {
    let message = error.fault().to_string().into();
    match error {
        StoreError::Unavailable(_) => InfraError::NotApplied { operation, message },
        StoreError::Corrupt(_) => InfraError::Corrupt { operation, message },
    }
}

/// A failed listing.
pub fn scan(operation: Operation, error: &ScanError) -> InfraError {
    match error {
        ScanError::Store(error) => read(operation, error),
        ScanError::Moved => {
            let (operation, message) = (operation.load, error.to_string().into());
            InfraError::NotApplied { operation, message }
        }
    }
}

/// A failure of a session, at the step with this name.
pub fn session(step: &'static str, error: &SessionError) -> InfraError {
    match error {
        SessionError::Store(error) => failed(step, error),
        SessionError::Gone(_) => {
            InfraError::NotApplied { operation: step, message: error.to_string().into() }
        }
    }
}

/// A commit that was not acknowledged.
pub fn commit(operation: Operation, error: &CommitError) -> InfraError {
    let operation = operation.commit;
    let message = error.to_string().into();
    match error {
        CommitError::Conflict(_)
        | CommitError::SessionGone(_)
        | CommitError::TooLarge(_)
        | CommitError::NotApplied(_) => InfraError::NotApplied { operation, message },
        CommitError::Unknown(_) => InfraError::Unknown { operation, message },
        CommitError::Corrupt(_) => InfraError::Corrupt { operation, message },
    }
}

/// A violated invariant between stored records.
pub fn corrupt(operation: Operation, message: impl Into<Box<str>>) -> InfraError {
    InfraError::Corrupt { operation: operation.load, message: message.into() }
}

/// Other processes changed the same records before every attempt.
pub fn contention(operation: Operation) -> InfraError {
    let message = "other processes changed the same records before every attempt; try again".into();
    InfraError::NotApplied { operation: operation.commit, message }
}
