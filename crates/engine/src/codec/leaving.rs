use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A node is about to leave; the key says which. Goes away with the node's session, so that the
/// node is welcome when it comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaving;

impl Record for Leaving {
    const KIND: Kind = Kind::Leaving;
}

impl CanonicalBytes for Leaving {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, _sink: &mut S) {}
}

impl ReadFields for Leaving {
    fn read_fields(_reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}
