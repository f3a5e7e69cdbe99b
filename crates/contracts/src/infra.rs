/// A failure of the infrastructure below the protocol, by what is known of the effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InfraError {
    /// The operation did not happen. It may be repeated.
    #[error("{operation} was not applied: {message}")]
    NotApplied {
        /// The step that failed.
        operation: &'static str,
        /// The error message.
        message: Box<str>,
    },
    /// The operation may have happened. Repeat it only with the same operation id.
    #[error("whether {operation} was applied is unknown: {message}")]
    Unknown {
        /// The step that failed.
        operation: &'static str,
        /// The error message.
        message: Box<str>,
    },
    /// Stored data cannot be read. Retrying does not help.
    #[error("{operation} met corrupt data: {message}")]
    Corrupt {
        /// The step that failed.
        operation: &'static str,
        /// The error message.
        message: Box<str>,
    },
}

impl InfraError {
    /// Whether a retry with the same operation id may help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::NotApplied { .. } | Self::Unknown { .. } => true,
            Self::Corrupt { .. } => false,
        }
    }
}

/// A record that no sequence of operations can have produced.
///
/// After an operation it is a bug, and the record must not be stored. In storage it is corruption,
/// and the record must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record invariant violated: {0}")]
pub struct InvariantViolation(pub &'static str);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_corruption_is_not_retryable() {
        let (operation, message) = ("checkpoint.commit", Box::<str>::from("timed out"));
        let not_applied = InfraError::NotApplied { operation, message: message.clone() };
        let unknown = InfraError::Unknown { operation, message: message.clone() };
        let corrupt = InfraError::Corrupt { operation, message };
        assert!(not_applied.is_retryable() && unknown.is_retryable() && !corrupt.is_retryable());
        let text = unknown.to_string();
        assert_eq!(text, "whether checkpoint.commit was applied is unknown: timed out");
    }
}
