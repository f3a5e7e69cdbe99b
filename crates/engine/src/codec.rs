//! Stored records as bytes, and back.
//!
//! A record starts with a [`RecordKind`] byte and a version byte, so that decoding rejects a value
//! under the wrong key or of a later version. The fields follow in the canonical framing: integers
//! little-endian, byte strings and lists after a `u32`, options after a presence byte, enums one
//! byte.
//!
//! Each record has exactly one encoding: bytes that decode encode to the same bytes. Decoding is
//! total. It rejects truncated records, trailing bytes, unknown bytes and records that no operation
//! can have written. It allocates no more than the input's length justifies. Encoding checks
//! nothing: an operation checks a record before storing it.
//!
//! | file | content |
//! |---|---|
//! | `kind` | the registry of kinds |
//! | `record`, `field` | [`Record`], [`Field`] and the macro [`record!`](crate::record) |
//! | `reader`, `error` | reading fields, and why a value cannot be read |

mod error;
mod field;
mod kind;
mod reader;
mod record;

pub use error::{DecodeError, DecodeProblem};
pub use field::Field;
pub use kind::RecordKind;
pub use reader::{List, ReadFields, Reader};
pub use record::{Record, VERSION, encode_as};

// `record!` refers to these here, so that its callers need not depend on `contracts`.
pub use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use shardwright_contracts::LogicalTime;

use crate::record;

// Records of the store as a whole, which belong to no protocol.
record! { ():
    /// Upper bound of every time that the clock has returned. After a restart the clock returns no
    /// earlier time.
    #[derive(Copy)]
    ClockMarkRecord: RecordKind::ClockMark {
        /// First time that the clock has not returned.
        reserved_until: LogicalTime,
    }

    /// Number of times the store was set up or restored from a backup. Raises every fence.
    #[derive(Copy)]
    StoreGenerationRecord: RecordKind::StoreGeneration {
        /// The count.
        number: u32,
    }

    /// Layout of the store, so that older and newer code rejects it.
    #[derive(Copy)]
    FormatRecord: RecordKind::Format {
        /// Version of the layout.
        version: u32,
    }
}
