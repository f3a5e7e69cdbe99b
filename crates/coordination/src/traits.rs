//! What every backend can do, asked one call at a time with the time as an argument.

use shardwright_contracts::{
    CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, SplitReplacePlan,
    SplitResidualPlan, TenantId, WorkerId,
};

use crate::error::{
    AcquireError, CheckpointError, CompleteError, CreateRunError, DeclineError, ParkError,
    RegisterShardsError, ReleaseError, RenewError, RunQueryError, RunTransitionError,
    SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{AcquireResultView, AcquireScratch, HolderNotice, RenewResult};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};

/// Operations on shards. What each does and refuses is written in [`crate::ops`].
///
/// Whatever a backend does besides, it keeps these promises: a tenant never sees or changes
/// another's shards; of the writers of a shard at most one is accepted per fence; an operation id
/// has one effect; a cursor never moves back or out of its shard; children tile their parent.
pub trait CoordinationBackend {
    /// Gives a shard to `worker` and copies it into `scratch`.
    fn acquire_and_restore_into<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, AcquireError>;

    /// Makes a lease last longer.
    fn renew(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
    ) -> Result<RenewResult, RenewError>;

    /// Moves a shard's cursor forward. With a replay nothing is told besides.
    fn checkpoint(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError>;

    /// Finishes a shard.
    fn complete(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError>;

    /// Stops a shard until somebody unparks it.
    fn park_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError>;

    /// Gives a lease back.
    fn release(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError>;

    /// Replaces a shard by children.
    fn split_replace(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError>;

    /// Gives the right part of a shard to a new one.
    fn split_residual(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError>;

    /// Asks the holder of a shard for a part of it. The holder sees it with its next answer.
    fn request_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        expires_at: LogicalTime,
    ) -> Result<(), SplitRequestError>;

    /// Refuses to split for now: nobody asks again before `not_before`.
    fn decline_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        not_before: LogicalTime,
    ) -> Result<(), DeclineError>;
}

/// Operations on runs. They need no lease.
pub trait RunManagement {
    /// Makes a run that waits for its shards.
    fn create_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError>;

    /// Registers the shards of a run and starts it.
    fn register_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError>;

    /// Makes a run and starts it with its shards, or does neither: a refusal leaves no run behind
    /// that waits for shards. A run of the same configuration that does wait is started.
    fn create_run_with_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError>;

    /// The run as it is stored.
    fn get_run(&mut self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError>;

    /// How far the run has come.
    fn get_run_progress(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError>;

    /// Puts summaries of the run's shards that pass `filter` into `out`, in key order.
    fn list_shards_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
        out: &mut Vec<ShardSummary>,
    ) -> Result<(), RunQueryError>;

    /// Ends a run as done.
    fn complete_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError>;

    /// Ends a run as failed.
    fn fail_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError>;

    /// Ends a run as cancelled.
    fn cancel_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError>;

    /// Hands out nothing new of a run for the time being.
    fn pause_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError>;

    /// Hands out shards of a run again.
    fn resume_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError>;

    /// Makes a parked shard active again.
    fn unpark_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError>;

    /// Puts up to `limit` shards that `worker` could acquire into `out`, in the order in which it
    /// should try them. Different workers start at different places.
    fn collect_claim_candidates_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimOutlook, RunQueryError>;
}

/// What a look for shards to acquire found besides candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimOutlook {
    /// When the first of the leases ends, if there are any.
    pub earliest_deadline: Option<LogicalTime>,
}

/// Why a run was not created and started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateRunWithShardsError {
    /// It could not be created.
    #[error(transparent)]
    Create(#[from] CreateRunError),
    /// Its shards could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterShardsError),
}
