//! The vocabulary of the run protocol: every operation as data.
//!
//! A caller sends a [`Request`], a backend returns a [`Reply`]. The table in `table.rs` lists the
//! 26 operations with their parameters, outputs and errors. Backends, adapters and wires handle
//! [`Request`] and [`Reply`]. Callers use the typed operations, or the methods of the traits in
//! [`crate::async_traits`] and [`crate::traits`].
//!
//! The type parameter of a request decides who owns its bytes. A backend executes `Request<&[u8]>`,
//! a queue stores `Request<Vec<u8>>`, and a wire may decode into any type that lends a slice.
//!
//! Waiting ([`crate::Backend::claimable`]) and event streams are not operations: they have no
//! single reply.

mod bytes;
mod reply;
mod table;

use shardwright_contracts::{OpId, RunId, ShardKey};

pub use reply::{Answer, Reply, narrow, widen};
pub use table::{
    Acquire, ChangeRun, Checkpoint, Claim, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, FindRun, GetRun, GetRunProgress, LabelOf, ListEstimates,
    ListLabels, ListShards, NameRun, ParkShard, PublishEstimate, RegisterShards, Release, Renew,
    Request, RequestSplit, SplitReplace, SplitResidual, UnparkShard,
};

use crate::error::{CoordError, InfraError};
use crate::lease::Lease;

/// One kind of request, with the types of its answer.
pub trait Operation<B>: Into<Request<B>> {
    /// The name of the operation, such as `park_shard`.
    const NAME: &'static str;
    /// The output of the operation.
    type Output: TryFrom<Reply, Error = Reply> + Into<Reply>;
    /// Why the operation fails.
    type Error: From<InfraError> + Into<CoordError> + TryFrom<CoordError, Error = CoordError>;
}

/// A change of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunTransition {
    /// End the run as done. Every shard must be done or split.
    Complete,
    /// End the run as failed.
    Fail,
    /// End the run as cancelled, even before it has shards.
    Cancel,
    /// Stop granting shards.
    Pause,
    /// Grant shards again.
    Resume,
}

impl RunTransition {
    /// The name of the transition, such as `pause_run`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete_run",
            Self::Fail => "fail_run",
            Self::Cancel => "cancel_run",
            Self::Pause => "pause_run",
            Self::Resume => "resume_run",
        }
    }
}

impl<B> Request<B> {
    /// The lease that the request shows.
    pub const fn lease(&self) -> Option<&Lease> {
        match self {
            Self::Renew(Renew { lease })
            | Self::Checkpoint(Checkpoint { lease, .. })
            | Self::Complete(Complete { lease, .. })
            | Self::ParkShard(ParkShard { lease, .. })
            | Self::Release(Release { lease, .. })
            | Self::SplitReplace(SplitReplace { lease, .. })
            | Self::SplitResidual(SplitResidual { lease, .. })
            | Self::DeclineSplit(DeclineSplit { lease, .. })
            | Self::PublishEstimate(PublishEstimate { lease, .. }) => Some(lease),
            _ => None,
        }
    }

    /// The shard that the request names.
    #[must_use]
    pub const fn shard(&self) -> Option<ShardKey> {
        match self {
            Self::Acquire(Acquire { key, .. })
            | Self::RequestSplit(RequestSplit { key, .. })
            | Self::UnparkShard(UnparkShard { key, .. }) => Some(*key),
            _ => match self.lease() {
                Some(lease) => Some(lease.key()),
                None => None,
            },
        }
    }

    /// The run that the request names.
    #[must_use]
    pub const fn run(&self) -> Option<RunId> {
        match self {
            Self::Claim(Claim { run, .. })
            | Self::CreateRun(CreateRun { run, .. })
            | Self::RegisterShards(RegisterShards { run, .. })
            | Self::CreateRunWithShards(CreateRunWithShards { run, .. })
            | Self::GetRun(GetRun { run })
            | Self::GetRunProgress(GetRunProgress { run })
            | Self::ListShards(ListShards { run, .. })
            | Self::ChangeRun(ChangeRun { run, .. })
            | Self::CollectClaimCandidates(CollectClaimCandidates { run, .. })
            | Self::NameRun(NameRun { run, .. })
            | Self::LabelOf(LabelOf { run })
            | Self::ListEstimates(ListEstimates { run }) => Some(*run),
            _ => match self.shard() {
                Some(key) => Some(key.run),
                None => None,
            },
        }
    }

    /// The operation id, by which a repeated request has one effect.
    #[must_use]
    pub const fn op_id(&self) -> Option<OpId> {
        match self {
            Self::Checkpoint(Checkpoint { op, .. })
            | Self::Complete(Complete { op, .. })
            | Self::ParkShard(ParkShard { op, .. })
            | Self::Release(Release { op, .. })
            | Self::SplitReplace(SplitReplace { op, .. })
            | Self::SplitResidual(SplitResidual { op, .. })
            | Self::RegisterShards(RegisterShards { op, .. })
            | Self::CreateRunWithShards(CreateRunWithShards { op, .. })
            | Self::ChangeRun(ChangeRun { op, .. })
            | Self::UnparkShard(UnparkShard { op, .. }) => Some(*op),
            _ => None,
        }
    }

    /// Whether the request only reads. Repeating a query is always safe.
    #[must_use]
    pub const fn is_query(&self) -> bool {
        matches!(
            self,
            Self::GetRun(_)
                | Self::GetRunProgress(_)
                | Self::ListShards(_)
                | Self::CollectClaimCandidates(_)
                | Self::FindRun(_)
                | Self::LabelOf(_)
                | Self::ListLabels(_)
                | Self::ListEstimates(_)
        )
    }
}

#[cfg(test)]
mod tests;
