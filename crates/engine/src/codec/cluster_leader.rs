use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_placement::Holder;

use super::error::DecodeError;
use super::fields::put_holder;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// Who leads a cluster, as long as it is a member in that life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterLeader {
    /// The node.
    pub holder: Holder,
}

impl Record for ClusterLeader {
    const KIND: Kind = Kind::ClusterLeader;
}

impl CanonicalBytes for ClusterLeader {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        put_holder(sink, &self.holder);
    }
}

impl ReadFields for ClusterLeader {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { holder: reader.holder()? })
    }
}
