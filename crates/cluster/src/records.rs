//! Records of the cluster protocol.
//!
//! A cluster is a [`ClusterPlanRecord`], a [`ClusterDeletionRecord`] if there was one of the same
//! name before, its members ([`NodeMemberRecord`],
//! [`ClusterGateRecord`]), a [`ClusterLeaderRecord`], targets under one version
//! ([`TargetHeadRecord`] and [`TargetChunkRecord`]s) and a [`ShardClaimRecord`] per shard.

mod target_chunk;

use std::num::NonZeroU32;

use shardwright_contracts::{CanonicalSink, FenceEpoch};
use shardwright_engine::codec::{DecodeError, DecodeProblem, Field, Reader};
use shardwright_engine::{fields, record};
use shardwright_placement::{
    Claim, Incarnation, NodeAddress, NodeInstance, ShardCount, ShardHash, Sharding, TargetHeader,
    TargetVersion,
};

pub use self::target_chunk::TargetChunkRecord;

/// The cluster protocol, whose records are declared here.
#[derive(Debug)]
pub enum ClusterProtocol {}

record! { ClusterProtocol:
    /// Properties of a cluster that never change.
    #[derive(Copy)]
    ClusterPlanRecord: RecordKind::ClusterPlan {
        /// How ids map to shards, and the number of shards.
        sharding: Sharding,
        /// How targets and claims are stored.
        format: ClusterFormat,
    }

    /// What a deletion leaves of a cluster. It remains when a cluster of the same name is created.
    #[derive(Copy)]
    ClusterDeletionRecord: RecordKind::ClusterDeletion {
        /// The lowest fence of later clusters of this name. All fences of earlier ones are below.
        floor: FenceEpoch,
        /// Whether the deletion has not ended. Until then no process can join.
        unfinished: bool,
    }

    /// A node that is a member of a cluster. The key has its address. Deleted with its session.
    ///
    /// It is written once, so the revision of that write identifies this incarnation of the node.
    #[derive(Copy)]
    NodeMemberRecord: RecordKind::NodeMember {
        /// Share of the shards, relative to other members.
        weight: NonZeroU32,
    }

    /// A gate of a cluster. The key has its address. Deleted with its session.
    ClusterGateRecord: RecordKind::ClusterGate

    /// Leader of a cluster, while it is a member in that incarnation.
    ClusterLeaderRecord: RecordKind::ClusterLeader {
        /// The node.
        holder: NodeInstance,
    }

    /// State of all targets of a cluster. Every write of targets also writes this record, so that
    /// comparing it compares all of them.
    #[derive(Copy)]
    TargetHeadRecord: RecordKind::TargetHead {
        /// The header.
        header: TargetHeader,
    }

    /// Current or last holder of a shard of a cluster. It remains after a release, so that the
    /// fence never decreases.
    ShardClaimRecord: RecordKind::ShardClaim {
        /// The claim.
        claim: Claim,
    }

    /// An operator's order to empty a node. The key has the node's address. It remains until it is
    /// revoked, also while the node is absent.
    DrainMarkRecord: RecordKind::DrainMark

    /// A node that is about to leave. The key has its address. Deleted with the node's session, so
    /// that the node can rejoin.
    LeavingRecord: RecordKind::Leaving
}

/// How targets and claims of a cluster are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterFormat {
    /// As records.
    Native,
    /// As text, the format of existing clusters.
    Seed,
}

fields! { ClusterProtocol:
    Sharding { hash: ShardHash, num_shards: ShardCount }
    TargetHeader { version: TargetVersion, frozen: bool, spreading: bool, shedding: bool }
    Claim { fence: FenceEpoch, holder: Option<NodeInstance> }
    NodeInstance { address: NodeAddress, incarnation: Incarnation }
}

/// Implements `Field` for enums of one byte.
macro_rules! choices {
    ($($name:ident { $($variant:ident = $byte:literal),+ })+) => {$(
        impl Field<ClusterProtocol> for $name {
            fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                sink.put_u8(match self {
                    $(Self::$variant => $byte),+
                });
            }

            fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                reader.byte(|byte| match byte {
                    $($byte => Ok(Self::$variant),)+
                    byte => Err(DecodeProblem::UnknownByte { what: name, byte }),
                })
            }
        }
    )+};
}

choices! {
    ShardHash { Fnv1a32 = 0, Avalanche64 = 1 }
    ClusterFormat { Native = 0, Seed = 1 }
}

/// Implements `Field` for numbers that have a type of their own.
macro_rules! numbers {
    ($($name:ident),+) => {$(
        impl Field<ClusterProtocol> for $name {
            fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                sink.put_u64(self.as_raw());
            }

            fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
                reader.u64().map(Self::from_raw)
            }
        }
    )+};
}

numbers!(Incarnation, TargetVersion);

impl Field<ClusterProtocol> for ShardCount {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_u32(self.get());
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        Self::try_new(reader.u32()?).map_err(|error| reader.invalid_at(offset, error))
    }
}

impl Field<ClusterProtocol> for NodeAddress {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_bytes(self.as_str().as_bytes());
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let (offset, text) = reader.text(name)?;
        Self::parse(text).map_err(|error| reader.invalid_at(offset, error))
    }
}
