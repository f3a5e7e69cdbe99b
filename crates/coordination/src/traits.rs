//! The sync traits of callers: one call at a time, with the time as an argument.
//!
//! A backend implements [`CoordinationBackend::call`]. The other methods are provided: each builds
//! one request of [`crate::operation`] and narrows its answer. A backend that can avoid copies or
//! the heap overrides them.

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
use crate::operation::{
    Acquire, Answer, ChangeRun, Checkpoint, CollectClaimCandidates, Complete, CreateRun,
    CreateRunWithShards, DeclineSplit, GetRun, GetRunProgress, ListShards, Operation, ParkShard,
    RegisterShards, Release, Renew, Request, RequestSplit, RunTransition, SplitReplace,
    SplitResidual, UnparkShard, narrow,
};
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{AcquireResultView, AcquireScratch, HolderNotice, RenewResult};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};

/// Operations on shards. [`crate::ops`] documents their effects and refusals. The promises of
/// [`crate::Backend::call`] hold here too.
pub trait CoordinationBackend {
    /// Executes a request in the name of `tenant`.
    fn call(&mut self, now: LogicalTime, tenant: TenantId, request: Request<&[u8]>) -> Answer;

    /// Gives a shard to `worker` and copies it into `scratch`.
    fn acquire_and_restore_into<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, AcquireError> {
        let state = execute(self, now, tenant, Acquire { key, worker })?;
        Ok(scratch.lend(&state))
    }

    /// Extends a lease.
    fn renew(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
    ) -> Result<RenewResult, RenewError> {
        execute(self, now, tenant, Renew { lease: *lease })
    }

    /// Advances a shard's cursor. A replay comes without a notice.
    fn checkpoint(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        execute(self, now, tenant, Checkpoint { lease: *lease, cursor, op })
    }

    /// Finishes a shard.
    fn complete(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        execute(self, now, tenant, Complete { lease: *lease, cursor, op })
    }

    /// Stops a shard until an operator unparks it.
    fn park_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        execute(self, now, tenant, ParkShard { lease: *lease, reason, detail, op })
    }

    /// Releases a lease.
    fn release(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        execute(self, now, tenant, Release { lease: *lease, op })
    }

    /// Replaces a shard by children.
    fn split_replace(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError> {
        let parts = plan.children().to_vec();
        execute(self, now, tenant, SplitReplace { lease: *lease, parts, op })
    }

    /// Splits the right part of a shard off as a new shard.
    fn split_residual(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError> {
        let (narrowed, residual) = (plan.narrowed(), plan.residual());
        execute(self, now, tenant, SplitResidual { lease: *lease, narrowed, residual, op })
    }

    /// Requests a part of a shard from its holder, until `expires_at`. A past time counts as now.
    /// The holder gets the request with its next answer.
    fn request_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        requester: WorkerId,
        expires_at: LogicalTime,
    ) -> Result<(), SplitRequestError> {
        let patience_ms = expires_at.millis_since(now);
        execute(self, now, tenant, RequestSplit { key, requester, patience_ms })
    }

    /// Declines split requests before `not_before`. A past time counts as now.
    fn decline_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        not_before: LogicalTime,
    ) -> Result<(), DeclineError> {
        let pause_ms = not_before.millis_since(now);
        execute(self, now, tenant, DeclineSplit { lease: *lease, pause_ms })
    }
}

/// Operations on runs. They need no lease.
pub trait RunManagement: CoordinationBackend {
    /// Creates a run that waits for its shards.
    fn create_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
        execute(self, now, tenant, CreateRun { run, config })
    }

    /// Registers the shards of a run and starts it.
    fn register_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        execute(self, now, tenant, RegisterShards { run, shards: shards.to_vec(), op })
    }

    /// Creates a run and starts it with its shards, or does neither. A refusal leaves no waiting
    /// run behind. An existing waiting run of the same configuration is started.
    fn create_run_with_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let shards = shards.to_vec();
        execute(self, now, tenant, CreateRunWithShards { run, config, shards, op })
    }

    /// The stored run.
    fn get_run(&mut self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        execute(self, LogicalTime::ZERO, tenant, GetRun { run })
    }

    /// The progress of the run.
    fn get_run_progress(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        execute(self, now, tenant, GetRunProgress { run })
    }

    /// Collects summaries of the run's shards that pass `filter` into `out`, in key order.
    fn list_shards_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
        out: &mut Vec<ShardSummary>,
    ) -> Result<(), RunQueryError> {
        *out = execute(self, now, tenant, ListShards { run, filter })?;
        Ok(())
    }

    /// Ends a run as done.
    fn complete_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        execute(self, now, tenant, ChangeRun { run, change: RunTransition::Complete, op })
    }

    /// Ends a run as failed.
    fn fail_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        execute(self, now, tenant, ChangeRun { run, change: RunTransition::Fail, op })
    }

    /// Ends a run as cancelled.
    fn cancel_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        execute(self, now, tenant, ChangeRun { run, change: RunTransition::Cancel, op })
    }

    /// Stops granting shards of a run.
    fn pause_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        execute(self, now, tenant, ChangeRun { run, change: RunTransition::Pause, op })
    }

    /// Grants shards of a run again.
    fn resume_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        execute(self, now, tenant, ChangeRun { run, change: RunTransition::Resume, op })
    }

    /// Makes a parked shard active again.
    fn unpark_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        execute(self, now, tenant, UnparkShard { key, op })
    }

    /// Collects up to `limit` shards that `worker` could acquire into `out`, in the order in which
    /// to try them. Different workers start at different shards.
    fn collect_claim_candidates_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimHint, RunQueryError> {
        let request = CollectClaimCandidates { run, worker, limit };
        let (found, hint) = execute(self, now, tenant, request)?;
        *out = found;
        Ok(hint)
    }
}

/// Executes one operation and narrows the answer to its types.
pub(crate) fn execute<'a, O: Operation<&'a [u8]>>(
    backend: &mut (impl CoordinationBackend + ?Sized),
    now: LogicalTime,
    tenant: TenantId,
    operation: O,
) -> Result<O::Output, O::Error> {
    narrow::<_, O>(backend.call(now, tenant, operation.into()))
}

/// When more shards may become available, reported with a list of candidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimHint {
    /// When the first lease of the run can be taken over.
    pub earliest_deadline: Option<LogicalTime>,
}

pub use crate::error::CreateRunWithShardsError;
