//! The async traits of callers: methods that every [`Backend`] has.
//!
//! The operations of [`crate::traits`] for async callers: the methods take `&self` and no time, and
//! return owned values in `Send` futures. Each method builds one request of [`crate::operation`]
//! and narrows its answer.

use std::future::Future;

use shardwright_contracts::{
    CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey, SplitReplacePlan,
    SplitResidualPlan, TenantId, WorkerId,
};

use crate::backend::{Backend, execute};
use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CreateRunError, DeclineError,
    ParkError, RegisterShardsError, ReleaseError, RenewError, RunQueryError, RunTransitionError,
    SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::operation::{
    Acquire, ChangeRun, Checkpoint, Claim, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, GetRun, GetRunProgress, ListShards, ParkShard,
    RegisterShards, Release, Renew, RequestSplit, RunTransition, SplitReplace, SplitResidual,
    UnparkShard, narrow,
};
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{HolderNotice, RenewResult, RestoredShardState};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{ClaimHint, CreateRunWithShardsError};

/// The answer to a checkpoint. A replay comes without a notice.
pub type Checkpointed = Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError>;
/// The answer to a replacing split.
pub type SplitReplaced = Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError>;
/// The answer to a residual split.
pub type SplitOff = Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError>;

/// Operations on shards; see [`crate::traits::CoordinationBackend`].
pub trait AsyncCoordinationBackend: Backend {
    /// Gives a shard to `worker`.
    fn acquire_and_restore(
        &self,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
    ) -> impl Future<Output = Result<RestoredShardState, AcquireError>> + Send {
        execute(self, tenant, Acquire { key, worker })
    }

    /// Extends a lease.
    fn renew(
        &self,
        tenant: TenantId,
        lease: &Lease,
    ) -> impl Future<Output = Result<RenewResult, RenewError>> + Send {
        execute(self, tenant, Renew { lease: *lease })
    }

    /// Advances a shard's cursor.
    fn checkpoint(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> impl Future<Output = Checkpointed> + Send {
        let request = Checkpoint { lease: *lease, cursor, op }.into();
        async move { narrow::<_, Checkpoint<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Finishes a shard.
    fn complete(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, CompleteError>> + Send {
        let request = Complete { lease: *lease, cursor, op }.into();
        async move { narrow::<_, Complete<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Stops a shard until an operator unparks it.
    fn park_shard(
        &self,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, ParkError>> + Send {
        let request = ParkShard { lease: *lease, reason, detail, op }.into();
        async move { narrow::<_, ParkShard<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Releases a lease.
    fn release(
        &self,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, ReleaseError>> + Send {
        execute(self, tenant, Release { lease: *lease, op })
    }

    /// Replaces a shard by children.
    fn split_replace(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> impl Future<Output = SplitReplaced> + Send {
        let request = SplitReplace { lease: *lease, parts: plan.children().to_vec(), op }.into();
        async move { narrow::<_, SplitReplace<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Splits the right part of a shard off as a new shard.
    fn split_residual(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> impl Future<Output = SplitOff> + Send {
        let (narrowed, residual) = (plan.narrowed(), plan.residual());
        let request = SplitResidual { lease: *lease, narrowed, residual, op }.into();
        async move { narrow::<_, SplitResidual<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Requests a part of a shard from its holder, for `patience_ms`.
    fn request_split(
        &self,
        tenant: TenantId,
        key: ShardKey,
        requester: WorkerId,
        patience_ms: u64,
    ) -> impl Future<Output = Result<(), SplitRequestError>> + Send {
        execute(self, tenant, RequestSplit { key, requester, patience_ms })
    }

    /// Declines split requests for `pause_ms`.
    fn decline_split(
        &self,
        tenant: TenantId,
        lease: &Lease,
        pause_ms: u64,
    ) -> impl Future<Output = Result<(), DeclineError>> + Send {
        execute(self, tenant, DeclineSplit { lease: *lease, pause_ms })
    }
}

impl<B: Backend + ?Sized> AsyncCoordinationBackend for B {}

/// Operations on runs; see [`crate::traits::RunManagement`].
pub trait AsyncRunManagement: Backend {
    /// Creates a run that waits for its shards.
    fn create_run(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> impl Future<Output = Result<(), CreateRunError>> + Send {
        execute(self, tenant, CreateRun { run, config })
    }

    /// Registers the shards of a run and starts it.
    fn register_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RegisterShardsError>> + Send {
        let request = RegisterShards { run, shards: shards.to_vec(), op }.into();
        async move { narrow::<_, RegisterShards<&[u8]>>(self.call(tenant, request).await) }
    }

    /// Creates a run and starts it with its shards, or does neither.
    fn create_run_with_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, CreateRunWithShardsError>> + Send {
        let request = CreateRunWithShards { run, config, shards: shards.to_vec(), op }.into();
        async move { narrow::<_, CreateRunWithShards<&[u8]>>(self.call(tenant, request).await) }
    }

    /// The stored run.
    fn get_run(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<RunRecord, RunQueryError>> + Send {
        execute(self, tenant, GetRun { run })
    }

    /// The progress of the run.
    fn get_run_progress(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> impl Future<Output = Result<RunProgress, RunQueryError>> + Send {
        execute(self, tenant, GetRunProgress { run })
    }

    /// Summaries of the run's shards that pass `filter`, in key order.
    fn list_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
    ) -> impl Future<Output = Result<Vec<ShardSummary>, RunQueryError>> + Send {
        execute(self, tenant, ListShards { run, filter })
    }

    /// Ends a run as done.
    fn complete_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send {
        execute(self, tenant, ChangeRun { run, change: RunTransition::Complete, op })
    }

    /// Ends a run as failed.
    fn fail_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send {
        execute(self, tenant, ChangeRun { run, change: RunTransition::Fail, op })
    }

    /// Ends a run as cancelled.
    fn cancel_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send {
        execute(self, tenant, ChangeRun { run, change: RunTransition::Cancel, op })
    }

    /// Stops granting shards of a run.
    fn pause_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send {
        execute(self, tenant, ChangeRun { run, change: RunTransition::Pause, op })
    }

    /// Grants shards of a run again.
    fn resume_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, RunTransitionError>> + Send {
        execute(self, tenant, ChangeRun { run, change: RunTransition::Resume, op })
    }

    /// Shards of the run that `worker` may be able to acquire, at most `limit` of them.
    fn collect_claim_candidates(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
    ) -> impl Future<Output = Result<(Vec<ShardId>, ClaimHint), RunQueryError>> + Send {
        execute(self, tenant, CollectClaimCandidates { run, worker, limit })
    }

    /// Makes a parked shard active again.
    fn unpark_shard(
        &self,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> impl Future<Output = Result<IdempotentOutcome<()>, UnparkError>> + Send {
        execute(self, tenant, UnparkShard { key, op })
    }
}

impl<B: Backend + ?Sized> AsyncRunManagement for B {}

/// Claiming any available shard of a run; see [`crate::facade::ShardClaiming`].
pub trait AsyncShardClaiming: Backend {
    /// Acquires any available shard of the run for `worker`, or reports when to retry.
    fn claim_next_available(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
    ) -> impl Future<Output = Result<RestoredShardState, ClaimError>> + Send {
        execute(self, tenant, Claim { run, worker })
    }
}

impl<B: Backend + ?Sized> AsyncShardClaiming for B {}

/// The current time. Pure code has no other source of time.
pub trait Clock: Send + Sync {
    /// The current time, never less than before.
    fn now(&self) -> LogicalTime;
}
