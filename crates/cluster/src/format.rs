//! The two stored formats of a cluster: records, and the text of existing clusters.
//!
//! All differences within a single value are here.

use std::num::NonZeroU32;

use bytes::Bytes;
use shardwright_engine::codec::{DecodeError, Record};
use shardwright_placement::seed_format::{SeedShard, SeedValueError};
use shardwright_placement::{
    Claim, Incarnation, NodeAddress, NodeAddressError, NodeInstance, ShardInfo, ShardOutOfRange,
};
use shardwright_store::Revision;

use crate::keys::ClusterKey;
use crate::records::{ClusterGateRecord, ClusterLeaderRecord, NodeMemberRecord, ShardClaimRecord};

/// Stored format of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Records,
    Text,
}

/// The leader according to a stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaderName {
    /// A node in one incarnation.
    Instance(NodeInstance),
    /// The node that had this address at this revision.
    At(NodeAddress, Revision),
}

impl Format {
    /// The weight of a member.
    pub(super) fn read_member(
        self,
        node: &NodeAddress,
        value: &[u8],
    ) -> Result<NonZeroU32, Unreadable> {
        match self {
            Self::Records => Ok(NodeMemberRecord::decode(value)?.weight),
            Self::Text => own_address(node, value).map(|()| NonZeroU32::MIN),
        }
    }

    pub(super) fn member(self, node: &NodeAddress, weight: NonZeroU32) -> Bytes {
        match self {
            Self::Records => NodeMemberRecord { weight }.encode(),
            Self::Text => text_of(node),
        }
    }

    pub(super) fn read_gate(self, gate: &NodeAddress, value: &[u8]) -> Result<(), Unreadable> {
        match self {
            Self::Records => Ok(ClusterGateRecord::decode(value).map(|_| ())?),
            Self::Text => own_address(gate, value),
        }
    }

    pub(super) fn gate(self, gate: &NodeAddress) -> Bytes {
        match self {
            Self::Records => ClusterGateRecord.encode(),
            Self::Text => text_of(gate),
        }
    }

    pub(super) fn read_leader(self, value: &[u8], at: Revision) -> Result<LeaderName, Unreadable> {
        match self {
            Self::Records => Ok(LeaderName::Instance(ClusterLeaderRecord::decode(value)?.holder)),
            Self::Text => Ok(LeaderName::At(NodeAddress::parse(text(value)?)?, at)),
        }
    }

    pub(super) fn leader(self, holder: &NodeInstance) -> Bytes {
        match self {
            Self::Records => ClusterLeaderRecord { holder: holder.clone() }.encode(),
            Self::Text => text_of(&holder.address),
        }
    }

    /// Encodes the claim of a shard.
    pub(super) fn claimed(self, info: ShardInfo<'_>, claim: &Claim) -> Bytes {
        match self {
            Self::Records => ShardClaimRecord { claim: claim.clone() }.encode(),
            Self::Text => {
                let current = claim.holder.as_ref().map(|holder| holder.address.clone());
                Bytes::from(SeedShard { current, ..SeedShard::of(info) }.to_string())
            }
        }
    }
}

/// Reads the text of a shard.
pub(super) fn read_shard_text(value: &[u8]) -> Result<SeedShard, Unreadable> {
    Ok(SeedShard::parse(text(value)?)?)
}

/// Returns the incarnation that wrote a value at a revision. That is the current member if it
/// joined before, and otherwise one that has ended.
pub(super) fn incarnation_at(member: Option<Incarnation>, written: Revision) -> Incarnation {
    let ended = Incarnation::from_raw(0);
    member.filter(|current| current.as_raw() < written.get()).unwrap_or(ended)
}

fn text(value: &[u8]) -> Result<&str, Unreadable> {
    str::from_utf8(value).map_err(|_| Unreadable::NotText)
}

fn text_of(address: &NodeAddress) -> Bytes {
    Bytes::copy_from_slice(address.as_str().as_bytes())
}

fn own_address(address: &NodeAddress, value: &[u8]) -> Result<(), Unreadable> {
    if NodeAddress::parse(text(value)?)? == *address {
        Ok(())
    } else {
        Err(Unreadable::OtherAddress)
    }
}

/// A stored value that cannot be read. Only its subject is affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key:?}: {why}")]
pub struct Quarantined {
    /// Key of the value.
    pub key: ClusterKey,
    /// Why it cannot be read.
    pub why: Unreadable,
}

/// Why a stored value of a cluster cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is not the expected record.
    #[error(transparent)]
    Record(#[from] DecodeError),
    /// It is not UTF-8.
    #[error("the value is not UTF-8")]
    NotText,
    /// It is not the text of a shard.
    #[error(transparent)]
    Text(#[from] SeedValueError),
    /// It is not an address.
    #[error(transparent)]
    Address(#[from] NodeAddressError),
    /// Its address differs from the key's.
    #[error("the address in the value differs from the key's")]
    OtherAddress,
    /// Its shard does not exist in the cluster.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// Its chunk does not exist in the cluster.
    #[error("chunk {0} does not exist")]
    Chunk(u32),
    /// It has the wrong number of shards for a chunk.
    #[error("the chunk has {expected} shards, not {found}")]
    ChunkLength {
        /// Number of shards of the chunk.
        expected: usize,
        /// Number of shards of the value.
        found: usize,
    },
}
