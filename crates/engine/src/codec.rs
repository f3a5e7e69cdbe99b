//! Stored records as bytes, and back.
//!
//! A record starts with a [`RecordKind`] byte and a version byte, so that decoding rejects a value
//! under the wrong key or of a later version. The fields follow in the canonical framing: integers
//! little-endian, byte strings and lists behind a `u32`, options behind a presence byte, enums one
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
//! | `store_records` | clock mark, generation and format of the store |

mod error;
mod field;
mod kind;
mod reader;
mod record;
mod store_records;

pub use error::{DecodeError, DecodeProblem};
pub use field::Field;
pub use kind::RecordKind;
pub use reader::{List, ReadFields, Reader};
pub use record::{Record, VERSION, encode_as};
pub use store_records::{ClockMarkRecord, FormatRecord, StoreGenerationRecord};

// `record!` refers to these here, so that its callers need not depend on `contracts`.
pub use shardwright_contracts::{CanonicalBytes, CanonicalSink};
