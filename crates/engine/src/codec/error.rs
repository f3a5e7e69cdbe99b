use shardwright_contracts::{CursorInputError, ShardSpecInputError};
use shardwright_coordination::{InvariantViolation, RunConfigError};
use shardwright_placement::{FlagError, NodeAddressError, ShardCountError};

use super::kind::Kind;

/// A stored value that is not the record it should be.
///
/// Says what and where, and of the user's bytes only how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored {kind} cannot be read, at byte {offset}: {problem}")]
pub struct DecodeError {
    /// Which record was expected.
    pub kind: Kind,
    /// What is wrong.
    pub problem: Problem,
    /// Where: how many bytes lie before what is wrong.
    pub offset: usize,
}

/// What is wrong with a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing is left of it. So a store tells what it knows to be other bytes than were written.
    #[error("its bytes are gone, or are not those that were written")]
    Empty,
    /// It ends too soon.
    #[error("{needed} more bytes are needed and {left} are left")]
    Truncated {
        /// How many bytes the next field needs.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// It goes on after its last field.
    #[error("{extra} bytes are left over")]
    Trailing {
        /// How many bytes.
        extra: usize,
    },
    /// It is a record of another kind, or of none.
    #[error("its first byte is {found}, which stands for {}", match Kind::from_byte(*.found) {
        Some(kind) => kind.name(),
        None => "nothing",
    })]
    OtherKind {
        /// The byte that should name the kind.
        found: u8,
    },
    /// It is of a version that this code does not know.
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
    /// A list is longer than it may be.
    #[error("{count} {what} are more than {max}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many there are said to be.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A number is zero that never is.
    #[error("a {what} is never zero")]
    Zero {
        /// What the number is.
        what: &'static str,
    },
    /// A token is present and empty, which is written as absent.
    #[error("an empty token is written as none")]
    EmptyToken,
    /// Range and metadata do not make a shard.
    #[error("{0}")]
    Spec(ShardSpecInputError),
    /// Key and token do not make a cursor.
    #[error("{0}")]
    Cursor(CursorInputError),
    /// Numbers do not make a run's configuration.
    #[error("{0}")]
    Config(RunConfigError),
    /// Bytes are no text.
    #[error("the bytes of a {what} are no text")]
    NotText {
        /// What they should be.
        what: &'static str,
    },
    /// A text is no address of a node.
    #[error("{0}")]
    Address(NodeAddressError),
    /// A text is no flag of a shard, or flags do not go together.
    #[error("{0}")]
    Flag(FlagError),
    /// No cluster has that many shards.
    #[error("{0}")]
    ShardCount(ShardCountError),
    /// The fields do not go together.
    #[error("{0}")]
    Invariant(InvariantViolation),
}
