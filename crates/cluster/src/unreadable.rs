use shardwright_engine::codec::DecodeError;
use shardwright_placement::seed_format::SeedValueError;
use shardwright_placement::{NodeAddressError, ShardOutOfRange};

use crate::keys::ClusterKey;

/// Something stored that cannot be read. Only what it is about is out of order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key:?}: {why}")]
pub struct Quarantined {
    /// What it should say something of.
    pub key: ClusterKey,
    /// What is wrong with it.
    pub why: Unreadable,
}

/// Why a stored value of a cluster cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is not the record that it should be.
    #[error(transparent)]
    Record(#[from] DecodeError),
    /// It is no text.
    #[error("the value is no text")]
    NotText,
    /// It is not what the text of a shard should be.
    #[error(transparent)]
    Text(#[from] SeedValueError),
    /// It is no address.
    #[error(transparent)]
    Address(#[from] NodeAddressError),
    /// It is another address than that of its key.
    #[error("the value is another address than the key's")]
    OtherAddress,
    /// It is about a shard that the cluster does not have.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// It is about a chunk that the cluster does not have.
    #[error("there is no chunk {0}")]
    Chunk(u32),
    /// It is about more or fewer shards than a chunk has.
    #[error("the chunk has {expected} shards, not {found}")]
    ChunkLength {
        /// What it should have.
        expected: usize,
        /// What it has.
        found: usize,
    },
}
