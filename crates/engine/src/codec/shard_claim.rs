use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_placement::Claim;

use super::error::DecodeError;
use super::fields::{put_holder, put_optional};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// Who has claimed a shard of a cluster, or had. It stays after a release, so that the fence never
/// falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardClaim {
    /// The claim.
    pub claim: Claim,
}

impl Record for ShardClaim {
    const KIND: Kind = Kind::ShardClaim;
}

impl CanonicalBytes for ShardClaim {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let Claim { holder, fence } = &self.claim;
        fence.write_canonical(sink);
        put_optional(sink, holder.as_ref(), put_holder);
    }
}

impl ReadFields for ShardClaim {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let fence = reader.fence()?;
        Ok(Self { claim: Claim { fence, holder: reader.optional(Reader::holder)? } })
    }
}
