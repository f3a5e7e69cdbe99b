use shardwright_contracts::{InfraError, ShardId};
use shardwright_engine::setup::StoreOpenError;
use shardwright_placement::ops::{ClaimRefused, LeadRefused, LeaderRefused, ReleaseRefused};
use shardwright_placement::{
    JoinRefused, NodeAddress, Readiness, ShardCount, ShardOutOfRange, Sharding,
};

use super::options::{Layout, OptionsError};
use crate::records::ClusterFormat;

/// Error of opening a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterOpenError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The process has a different sharding than the cluster.
    #[error(transparent)]
    Join(#[from] JoinRefused),
    /// The process expects fewer shards than a cluster stored as text has.
    #[error("the cluster has at least {at_least} shards, but this process expects {ours}")]
    MoreShards {
        /// Number of shards that its keys prove.
        at_least: ShardCount,
        /// The process's value.
        ours: ShardCount,
    },
    /// The process expects another stored format.
    #[error("the cluster is stored as {}, but this process expects {}", match .cluster {
        ClusterFormat::Native => "records",
        ClusterFormat::Seed => "text",
    }, match .ours {
        Layout::Native => "records",
        Layout::Seed { .. } => "text",
    })]
    Layout {
        /// Format of the cluster.
        cluster: ClusterFormat,
        /// The process's value.
        ours: Layout,
    },
    /// The cluster does not exist, and opening it does not create it.
    #[error("the cluster does not exist")]
    NotThere,
    /// A deletion has begun and not ended.
    #[error("a deletion of the cluster was interrupted")]
    Remains,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
}

/// Error of creating a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterCreateError {
    /// It exists.
    #[error(
        "the cluster exists, with {} shards by {}",
        .sharding.num_shards,
        .sharding.hash.name()
    )]
    Exists {
        /// How it maps ids to shards.
        sharding: Sharding,
    },
    /// It cannot be created.
    #[error(transparent)]
    Open(#[from] ClusterOpenError),
}

/// Error of deleting a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterDeleteError {
    /// It does not exist.
    #[error("the cluster does not exist")]
    NotThere,
    /// Processes are members.
    #[error("the cluster has members: {}", listed(.0))]
    Members(Vec<NodeAddress>),
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
}

impl From<InfraError> for ClusterDeleteError {
    fn from(error: InfraError) -> Self {
        Self::Store(error.into())
    }
}

/// Most addresses in a message.
const LISTED_MAX: usize = 8;

fn listed(nodes: &[NodeAddress]) -> String {
    let first: Vec<&str> = nodes.iter().take(LISTED_MAX).map(NodeAddress::as_str).collect();
    let more = if nodes.len() > LISTED_MAX { ", …" } else { "" };
    format!("{}{more}", first.join(", "))
}

/// The cluster was not ready in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster is not ready: {lacks}")]
pub struct NotReady {
    /// What is missing.
    pub lacks: Readiness,
}

impl From<InfraError> for ClusterOpenError {
    fn from(error: InfraError) -> Self {
        Self::Store(error.into())
    }
}

/// Error of joining a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Another process with that address remains a member.
    #[error("{0} is already a member; stop the other process, or wait for its session to end")]
    AddressTaken(NodeAddress),
    /// The text format cannot store weights.
    #[error("a cluster that is stored as text supports only weight 1")]
    Weight,
    /// The cluster is being deleted. The deletion is refused if a process has joined before it.
    #[error("the cluster is being deleted")]
    BeingDeleted,
    /// The cluster was deleted, or created again with other numbers, since it was opened.
    #[error("the cluster was deleted after this process opened it; restart the process")]
    Deleted,
    /// The session ended before the process was a member.
    #[error("the session ended before the process was a member; try again")]
    SessionEnded,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// The cluster that a process opened does not exist any more, or its records cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    BeingDeleted,
    Deleted,
    Store(InfraError),
}

impl From<Gone> for JoinError {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::BeingDeleted => Self::BeingDeleted,
            Gone::Deleted => Self::Deleted,
            Gone::Store(error) => Self::Store(error),
        }
    }
}

impl<R> From<Gone> for AdminError<R> {
    fn from(gone: Gone) -> Self {
        match gone {
            Gone::BeingDeleted => Self::BeingDeleted,
            Gone::Deleted => Self::Deleted,
            Gone::Store(error) => Self::Store(error),
        }
    }
}

/// Error of claiming a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardClaimError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] ClaimRefused),
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// The stored state of the shard cannot be read.
    #[error("the stored state of shard {} cannot be read", .0.as_raw())]
    Unreadable(ShardId),
    /// The holder may still be a member: its membership record cannot be read.
    #[error("the membership record of {0} cannot be read")]
    HolderUnreadable(NodeAddress),
    /// The claimer is no longer a member.
    #[error("the membership has ended")]
    Over,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Error of releasing a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardReleaseError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] ReleaseRefused),
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// The stored state of the shard cannot be read.
    #[error("the stored state of shard {} cannot be read", .0.as_raw())]
    Unreadable(ShardId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Error of becoming the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] LeadRefused),
    /// The leader may still be a member: its membership record cannot be read.
    #[error("the membership record of {0} cannot be read")]
    LeaderUnreadable(NodeAddress),
    /// The node is no member any more.
    #[error("the membership has ended")]
    Over,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Error of a leader's step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderStepError {
    /// The node does not lead.
    #[error(transparent)]
    Refused(#[from] LeaderRefused),
    /// The node is no member any more.
    #[error("the membership has ended")]
    Over,
    /// The header of the targets cannot be read, so no target can be written.
    #[error("the header of the targets cannot be read")]
    Unreadable,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Error of an operator's request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError<R> {
    /// A rule forbids it, or it is already in effect.
    #[error(transparent)]
    Refused(R),
    /// The stored state of the shard, or the header of the targets, cannot be read.
    #[error("the stored state of the shard or of the targets cannot be read")]
    Unreadable,
    /// The cluster is being deleted.
    #[error("the cluster is being deleted")]
    BeingDeleted,
    /// The cluster was deleted, or created again with other numbers, since it was opened.
    #[error("the cluster was deleted after this process opened it")]
    Deleted,
    /// The store failed.
    #[error(transparent)]
    Store(InfraError),
}

impl<R> From<InfraError> for AdminError<R> {
    fn from(error: InfraError) -> Self {
        Self::Store(error)
    }
}
