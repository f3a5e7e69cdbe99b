use shardwright_contracts::{
    CursorUpdate, LogicalTime, OpId, RunId, ShardKey, SplitReplacePlan, SplitResidualPlan,
    TenantId, WorkerId,
};
use shardwright_coordination::async_traits::{SplitOff, SplitReplaced};
use shardwright_coordination::{
    AcquireError, AcquireResultView, AcquireScratch, AsyncCoordinationBackend, AsyncShardClaiming,
    CheckpointError, ClaimError, CompleteError, CoordinationBackend, DeclineError, HolderNotice,
    IdempotentOutcome, Lease, ParkError, ParkReason, ReleaseError, RenewError, RenewResult,
    RestoredShardState, ShardClaiming, SplitRequestError,
};

use super::Blocking;

impl<B: AsyncCoordinationBackend> CoordinationBackend for Blocking<B> {
    fn acquire_and_restore_into<'s>(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, AcquireError> {
        let state = self.wait_for(|backend| backend.acquire_and_restore(tenant, key, worker))?;
        Ok(lend(&state, scratch))
    }

    fn renew(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
    ) -> Result<RenewResult, RenewError> {
        self.wait_for(|backend| backend.renew(tenant, lease))
    }

    fn checkpoint(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        self.wait_for(|backend| backend.checkpoint(tenant, lease, cursor, op))
    }

    fn complete(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        self.wait_for(|backend| backend.complete(tenant, lease, cursor, op))
    }

    fn park_shard(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        self.wait_for(|backend| backend.park_shard(tenant, lease, reason, detail, op))
    }

    fn release(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        self.wait_for(|backend| backend.release(tenant, lease, op))
    }

    fn split_replace(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> SplitReplaced {
        self.wait_for(|backend| backend.split_replace(tenant, lease, plan, op))
    }

    fn split_residual(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> SplitOff {
        self.wait_for(|backend| backend.split_residual(tenant, lease, plan, op))
    }

    fn request_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        expires_at: LogicalTime,
    ) -> Result<(), SplitRequestError> {
        let patience_ms = expires_at.millis_since(now);
        self.wait_for(|backend| backend.request_split(tenant, key, asker, patience_ms))
    }

    fn decline_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        not_before: LogicalTime,
    ) -> Result<(), DeclineError> {
        let pause_ms = not_before.millis_since(now);
        self.wait_for(|backend| backend.decline_split(tenant, lease, pause_ms))
    }
}

impl<B: AsyncShardClaiming> ShardClaiming for Blocking<B> {
    fn claim_next_available<'s>(
        &mut self,
        _now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError> {
        let state = self.wait_for(|backend| backend.claim_next_available(tenant, run, worker))?;
        Ok(lend(&state, scratch))
    }
}

/// Copies a shard into the caller's buffer.
fn lend<'s>(state: &RestoredShardState, scratch: &'s mut AcquireScratch) -> AcquireResultView<'s> {
    let (lease, capacity) = (state.lease, state.capacity);
    AcquireResultView { lease, snapshot: scratch.copy(&state.snapshot()), capacity }
}
