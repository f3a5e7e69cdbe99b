//! The two ways in which a cluster is stored: as records, and as the text of existing clusters.
//!
//! Everything that differs between them in a single value is here.

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

/// How values are written and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Records,
    Text,
}

/// Who a value says leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeaderName {
    /// A node in one of its lives.
    Instance(NodeInstance),
    /// Whoever was at an address at this moment.
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

    /// What is stored for a shard that is claimed or released so.
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

/// The life of a node that wrote something at a revision: the one that is a member now if that
/// began before, and else one that is over.
pub(super) fn life_at(member: Option<Incarnation>, written: Revision) -> Incarnation {
    let over = Incarnation::from_raw(0);
    member.filter(|life| life.as_raw() < written.get()).unwrap_or(over)
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
