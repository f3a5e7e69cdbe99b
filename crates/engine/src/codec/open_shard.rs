use shardwright_contracts::{CanonicalBytes, CanonicalSink};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A shard that could be claimed. That it is there says everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenShard;

impl Record for OpenShard {
    const KIND: Kind = Kind::OpenShard;
}

impl CanonicalBytes for OpenShard {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, _: &mut S) {}
}

impl ReadFields for OpenShard {
    fn read_fields(_: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}
