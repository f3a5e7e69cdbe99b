use shardwright_contracts::{CursorInputError, InvariantViolation, ShardSpecInputError};

use super::kind::RecordKind;

/// A stored value that is not the expected record.
///
/// Of user data it contains only lengths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored {kind} cannot be read, at byte {offset}: {problem}")]
pub struct DecodeError {
    /// The expected kind.
    pub kind: RecordKind,
    /// The problem.
    pub problem: DecodeProblem,
    /// Offset of the problem, in bytes.
    pub offset: usize,
}

/// Reason why a stored value does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeProblem {
    /// It is empty, by which a store reports that it lost or damaged the bytes.
    #[error("its bytes are gone, or are not those that were written")]
    Empty,
    /// It ends inside a field.
    #[error("{needed} more bytes are needed and {left} are left")]
    Truncated {
        /// Bytes that the field needs.
        needed: usize,
        /// Bytes that remain.
        left: usize,
    },
    /// It continues after the last field.
    #[error("{extra} bytes are left over")]
    Trailing {
        /// Number of bytes.
        extra: usize,
    },
    /// It is a record of another kind, or of none.
    #[error("its first byte is {found}, which stands for {}", match RecordKind::from_byte(*.found) {
        Some(kind) => kind.name(),
        None => "nothing",
    })]
    OtherKind {
        /// Its first byte.
        found: u8,
    },
    /// It has an unknown version.
    #[error("its version is {found}")]
    OtherVersion {
        /// The version.
        found: u8,
    },
    /// A byte is no value of its field.
    #[error("field {what} cannot be {byte}")]
    UnknownByte {
        /// Name of the field.
        what: &'static str,
        /// The byte.
        byte: u8,
    },
    /// A list is too long.
    #[error("{count} {what} are more than {max}")]
    TooMany {
        /// Name of the items.
        what: &'static str,
        /// Number of items, according to the record.
        count: usize,
        /// Most items.
        max: usize,
    },
    /// A number is zero that must not be.
    #[error("a {what} is never zero")]
    Zero {
        /// Name of the field.
        what: &'static str,
    },
    /// A token is present and empty. An empty token is stored as absent.
    #[error("an empty token is written as none")]
    EmptyToken,
    /// Range and metadata are no valid shard.
    #[error("{0}")]
    Spec(ShardSpecInputError),
    /// Key and token are no valid cursor.
    #[error("{0}")]
    Cursor(CursorInputError),
    /// A string is not UTF-8.
    #[error("the bytes of a {what} are not UTF-8")]
    NotText {
        /// Name of the field.
        what: &'static str,
    },
    /// The value is not valid in its protocol, whose error this is as text.
    #[error("{0}")]
    Invalid(Box<str>),
    /// The record violates an invariant.
    #[error("{0}")]
    Invariant(InvariantViolation),
}
