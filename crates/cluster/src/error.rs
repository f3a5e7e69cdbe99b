use shardwright_contracts::{InfraError, ShardId};
use shardwright_placement::ops::{ClaimRefused, LeadRefused, LeaderRefused, ReleaseRefused};
use shardwright_placement::{JoinRefused, NodeAddress, Readiness, ShardCount, ShardOutOfRange};

use super::options::{Layout, OptionsError};
use crate::records::ClusterFormat;

/// Why a process cannot take part in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterOpenError {
    /// Its options make no sense.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// It sees the cluster differently.
    #[error(transparent)]
    Join(#[from] JoinRefused),
    /// It takes a cluster that others keep as text for smaller than that is.
    #[error("the cluster has {at_least} shards or more, this process expects {ours}")]
    MoreShards {
        /// As many as its keys tell of.
        at_least: ShardCount,
        /// The process's.
        ours: ShardCount,
    },
    /// It would store the cluster in another way.
    #[error("the cluster is stored as {}, this process would store it as {}", match .cluster {
        ClusterFormat::Native => "records",
        ClusterFormat::Seed => "text",
    }, match .ours {
        Layout::Native => "records",
        Layout::Seed { .. } => "text",
    })]
    Layout {
        /// The cluster's way.
        cluster: ClusterFormat,
        /// The process's.
        ours: Layout,
    },
    /// There is no such cluster, and this process makes none.
    #[error("there is no such cluster")]
    NotThere,
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] shardwright_engine::setup::StoreOpenError),
}

/// A cluster did not get ready in time.
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

/// Why a process did not become a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Somebody with that address is a member and stays.
    #[error("{0} is a member already")]
    AddressTaken(NodeAddress),
    /// The text of existing clusters has no place for weights.
    #[error("nodes of a cluster that is stored as text all weigh 1")]
    Weight,
    /// The session ended before the process was a member.
    #[error("the session ended before it was used")]
    SessionEnded,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Why a shard was not claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardClaimError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] ClaimRefused),
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// What is stored of the shard cannot be read.
    #[error("what is stored of shard {} cannot be read", .0.as_raw())]
    Unreadable(ShardId),
    /// Whoever has the shard may be a member: what is stored of it cannot be read.
    #[error("whether {0} is still a member cannot be read")]
    HolderUnreadable(NodeAddress),
    /// The claimer is no member any more.
    #[error("the membership is over")]
    Over,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Why a shard was not released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardReleaseError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] ReleaseRefused),
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// What is stored of the shard cannot be read.
    #[error("what is stored of shard {} cannot be read", .0.as_raw())]
    Unreadable(ShardId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Why a node did not become the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadError {
    /// A rule forbids it.
    #[error(transparent)]
    Refused(#[from] LeadRefused),
    /// Whoever leads may be a member: what is stored of it cannot be read.
    #[error("whether {0} is still a member cannot be read")]
    LeaderUnreadable(NodeAddress),
    /// The node is no member any more.
    #[error("the membership is over")]
    Over,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Why a leader's step was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderStepError {
    /// The node does not lead, or not any more.
    #[error(transparent)]
    Refused(#[from] LeaderRefused),
    /// The node is no member any more.
    #[error("the membership is over")]
    Over,
    /// What is stored of all targets cannot be read, so none can be written.
    #[error("what is stored of all targets cannot be read")]
    Unreadable,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Why something that an operator asked for was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdminError<R> {
    /// A rule forbids it, or it is so already.
    #[error(transparent)]
    Refused(R),
    /// What is stored of the shard, or of all targets, cannot be read.
    #[error("what is stored of it cannot be read")]
    Unreadable,
    /// The store failed.
    #[error(transparent)]
    Store(InfraError),
}

impl<R> From<InfraError> for AdminError<R> {
    fn from(error: InfraError) -> Self {
        Self::Store(error)
    }
}
