use shardwright_contracts::{CanonicalBytes, CanonicalSink, ShardId};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// A worker that has asked for a part of a shard, so that it asks of one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The shard.
    pub shard: ShardId,
}

impl Record for Asker {
    const KIND: Kind = Kind::Asker;
}

impl CanonicalBytes for Asker {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.shard.write_canonical(sink);
    }
}

impl ReadFields for Asker {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { shard: reader.shard()? })
    }
}
