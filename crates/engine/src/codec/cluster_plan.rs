use shardwright_contracts::{CanonicalBytes, CanonicalSink};
use shardwright_placement::{ShardCount, ShardHash, Sharding};

use super::error::{DecodeError, Problem};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;

/// What is decided when a cluster is made, and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterPlan {
    /// How ids become shards, and how many of these there are.
    pub sharding: Sharding,
    /// How targets and claims are stored.
    pub format: ClusterFormat,
}

/// How targets and claims of a cluster are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ClusterFormat {
    /// As records, like everything here.
    Native = 0,
    /// As the text that existing clusters have.
    Seed = 1,
}

impl TryFrom<u8> for ClusterFormat {
    type Error = u8;

    fn try_from(byte: u8) -> Result<Self, u8> {
        match byte {
            0 => Ok(Self::Native),
            1 => Ok(Self::Seed),
            other => Err(other),
        }
    }
}

impl Record for ClusterPlan {
    const KIND: Kind = Kind::ClusterPlan;
}

impl CanonicalBytes for ClusterPlan {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let Self { sharding: Sharding { hash, num_shards }, format } = self;
        sink.put_u8(match hash {
            ShardHash::Fnv1a32 => 0,
            ShardHash::Avalanche64 => 1,
        });
        sink.put_u32(num_shards.get());
        sink.put_u8(*format as u8);
    }
}

impl ReadFields for ClusterPlan {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let hash = reader.byte(|byte| match byte {
            0 => Ok(ShardHash::Fnv1a32),
            1 => Ok(ShardHash::Avalanche64),
            byte => Err(Problem::UnknownByte { what: "hash", byte }),
        })?;
        let offset = reader.offset();
        let num_shards = ShardCount::try_new(reader.u32()?)
            .map_err(|error| reader.fail_at(offset, Problem::ShardCount(error)))?;
        let format = reader.choice("format of a cluster")?;
        Ok(Self { sharding: Sharding { hash, num_shards }, format })
    }
}
