//! What every backend can do, for callers that wait.
//!
//! The same operations as in [`crate::traits`], shaped for backends that talk to a store or a
//! server: they take `&self`, own the clock, and give owned values in futures that can move
//! between threads.

use std::future::Future;

use shardwright_contracts::{
    CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, SplitReplacePlan,
    SplitResidualPlan, TenantId, WorkerId,
};

use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CreateRunError, DeclineError,
    ParkError, RegisterShardsError, ReleaseError, RenewError, RunQueryError, RunTransitionError,
    SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{HolderNotice, RenewResult, RestoredShardState};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{ClaimOutlook, CreateRunWithShardsError};

/// What moving a shard's cursor gives; with a replay, nothing is told besides.
pub type Checkpointed = Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError>;
/// What replacing a shard by children gives.
pub type SplitReplaced = Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError>;
/// What giving the right part of a shard to a new one gives.
pub type SplitOff = Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError>;

/// Operations on shards; see [`crate::traits::CoordinationBackend`].
pub trait AsyncCoordinationBackend: Send + Sync {
    /// Gives a shard to `worker`.
    fn acquire_and_restore(
        &self,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
    ) -> impl Future<Output = Result<RestoredShardState, AcquireError>> + Send;

    /// Makes a lease last longer.
    fn renew(
        &self,
        tenant: TenantId,
        lease: &Lease,
    ) -> impl Future<Output = Result<RenewResult, RenewError>> + Send;

    /// Moves a shard's cursor forward.
    fn checkpoint(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> impl Future<Output = Checkpointed> + Send;

    /// Finishes a shard.
    fn complete(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, CompleteError>> + Send;

    /// Stops a shard until somebody unparks it.
    fn park_shard(
        &self,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, ParkError>> + Send;

    /// Gives a lease back.
    fn release(
        &self,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, ReleaseError>> + Send;

    /// Replaces a shard by children.
    fn split_replace(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> impl Future<Output = SplitReplaced> + Send;

    /// Gives the right part of a shard to a new one.
    fn split_residual(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> impl Future<Output = SplitOff> + Send;

    /// Asks the holder of a shard for a part of it, for `patience_ms`.
    fn request_split(
        &self,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        patience_ms: u64,
    ) -> impl Future<Output = Result<(), SplitRequestError>> + Send;

    /// Refuses to split for `pause_ms`.
    fn decline_split(
        &self,
        tenant: TenantId,
        lease: &Lease,
        pause_ms: u64,
    ) -> impl Future<Output = Result<(), DeclineError>> + Send;
}

/// Operations on runs; see [`crate::traits::RunManagement`].
pub trait AsyncRunManagement: Send + Sync {
    /// Makes a run that waits for its shards.
    fn create_run(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> impl Future<Output = Result<(), CreateRunError>> + Send;

    /// Registers the shards of a run and starts it.
    fn register_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RegisterShardsError>> + Send;

    /// Makes a run and starts it with its shards, or does neither.
    fn create_run_with_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, CreateRunWithShardsError>> + Send;

    /// The run as it is stored.
    fn get_run(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<RunRecord, RunQueryError>> + Send;

    /// How far the run has come.
    fn get_run_progress(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<RunProgress, RunQueryError>> + Send;

    /// Summaries of the run's shards that pass `filter`, in key order.
    fn list_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
    ) -> impl Future<Output = Result<Vec<ShardSummary>, RunQueryError>> + Send;

    /// Ends a run as done.
    fn complete_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send;

    /// Ends a run as failed.
    fn fail_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send;

    /// Ends a run as cancelled.
    fn cancel_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send;

    /// Hands out nothing new of a run for the time being.
    fn pause_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send;

    /// Hands out shards of a run again.
    fn resume_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send;

    /// Shards of the run that `worker` may be able to acquire, at most `limit` of them.
    fn collect_claim_candidates(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<ShardId>, ClaimOutlook), RunQueryError>> + Send;

    /// Makes a parked shard active again.
    fn unpark_shard(
        &self,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, UnparkError>> + Send;
}

/// Taking whichever shard of a run can be had; see [`crate::facade::ShardClaiming`].
pub trait AsyncShardClaiming: Send + Sync {
    /// Acquires some shard of the run for `worker`, or says when to try again.
    fn claim_next_available(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
    ) -> impl Future<Output = Result<RestoredShardState, ClaimError>> + Send;

    /// Waits until there may be something to claim that was not there before. A backend that
    /// cannot tell waits for ever, so a caller sets a limit of its own.
    fn something_to_claim(&self, tenant: TenantId, run: RunId) -> impl Future<Output = ()> + Send {
        let _ = (tenant, run);
        std::future::pending()
    }
}

/// What time it is. Pure code asks nobody else.
pub trait Clock: Send + Sync {
    /// The current time; never less than what was told before.
    fn now(&self) -> LogicalTime;
}
