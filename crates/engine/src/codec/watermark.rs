use std::fmt;

use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_contracts::{CanonicalBytes, CanonicalSink, Redacted};
use shardwright_coordination::InvariantViolation;

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// Up to where a run was told to be done.
#[derive(Clone, PartialEq, Eq)]
pub struct Watermark {
    /// Everything below this key is done.
    pub reached: Box<[u8]>,
}

impl fmt::Debug for Watermark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watermark").field("reached", &Redacted(&self.reached)).finish()
    }
}

impl Record for Watermark {
    const KIND: Kind = Kind::Watermark;
}

impl CanonicalBytes for Watermark {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_bytes(&self.reached);
    }
}

impl ReadFields for Watermark {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let reached = reader.bytes()?;
        let is_key = reached.len() <= MAX_KEY_SIZE;
        let violation = InvariantViolation("a watermark is a key");
        reader.sound(if is_key { Ok(()) } else { Err(violation) })?;
        Ok(Self { reached: reached.into() })
    }
}
