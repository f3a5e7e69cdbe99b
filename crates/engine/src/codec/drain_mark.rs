use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// An operator wants a node empty; the key says which. It stays until somebody takes it back,
/// whatever becomes of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainMark;

impl Record for DrainMark {
    const KIND: Kind = Kind::DrainMark;
}

impl CanonicalBytes for DrainMark {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, _sink: &mut S) {}
}

impl ReadFields for DrainMark {
    fn read_fields(_reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}
