use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// How often the store was set up or restored from a backup. Raises every fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The count.
    pub number: u32,
}

impl Record for Incarnation {
    const KIND: Kind = Kind::Incarnation;
}

impl CanonicalBytes for Incarnation {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(self.number);
    }
}

impl ReadFields for Incarnation {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { number: reader.u32()? })
    }
}
