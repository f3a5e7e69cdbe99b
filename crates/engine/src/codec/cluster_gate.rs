use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A gate of a cluster; its key says where it is. Goes away with its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterGate;

impl Record for ClusterGate {
    const KIND: Kind = Kind::ClusterGate;
}

impl CanonicalBytes for ClusterGate {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, _sink: &mut S) {}
}

impl ReadFields for ClusterGate {
    fn read_fields(_reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}
