//! Failures of a store, as callers of a protocol know them.

use shardwright_contracts::InfraError;
use shardwright_store::{CommitError, ScanError, SessionError, StoreError};

use crate::codec::DecodeError;

/// A failure to read. Nothing was to be applied, so nothing was.
pub fn read(operation: &'static str, error: &StoreError) -> InfraError {
    let message = error.fault().to_string().into();
    match error {
        StoreError::Unavailable(_) => InfraError::NotApplied { operation, message },
        StoreError::Corrupt(_) => InfraError::Corrupt { operation, message },
    }
}

/// A failure to list a range.
pub fn scan(operation: &'static str, error: &ScanError) -> InfraError {
    match error {
        ScanError::Store(error) => read(operation, error),
        ScanError::Moved => InfraError::NotApplied { operation, message: error.to_string().into() },
    }
}

/// A failure of a session.
pub fn session(operation: &'static str, error: &SessionError) -> InfraError {
    match error {
        SessionError::Store(error) => read(operation, error),
        SessionError::Gone(_) => {
            InfraError::NotApplied { operation, message: error.to_string().into() }
        }
    }
}

/// A commit that was not acknowledged.
pub fn commit(operation: &'static str, error: &CommitError) -> InfraError {
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

/// A stored record that cannot be what we wrote.
pub fn decode(operation: &'static str, error: &DecodeError) -> InfraError {
    InfraError::Corrupt { operation, message: error.to_string().into() }
}

/// A rule about what is stored together does not hold.
pub fn corrupt(operation: &'static str, message: impl Into<Box<str>>) -> InfraError {
    InfraError::Corrupt { operation, message: message.into() }
}

/// Others were faster too often.
pub fn contention(operation: &'static str) -> InfraError {
    let message = "others changed the same records again and again".into();
    InfraError::NotApplied { operation, message }
}
