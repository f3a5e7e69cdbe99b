use std::num::NonZeroU32;

use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::{DecodeError, Problem};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A node that is a member of a cluster; the key says where it is. Goes away with its session.
///
/// It is written once in a node's life, so the revision at which it was written tells that life
/// from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMember {
    /// Its share of the shards, relative to those of others.
    pub weight: NonZeroU32,
}

impl Record for NodeMember {
    const KIND: Kind = Kind::NodeMember;
}

impl CanonicalBytes for NodeMember {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(self.weight.get());
    }
}

impl ReadFields for NodeMember {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let weight = NonZeroU32::new(reader.u32()?);
        let zero = || reader.fail_at(offset, Problem::Zero { what: "weight" });
        Ok(Self { weight: weight.ok_or_else(zero)? })
    }
}
