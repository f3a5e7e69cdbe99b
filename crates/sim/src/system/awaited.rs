//! The async traits as a system that the world can drive.
//!
//! Nothing in memory waits, so one look at a future is enough. The clock is a cell that every call
//! sets to the caller's time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use shardwright_contracts::{
    CursorUpdate, FenceEpoch, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    SplitReplacePlan, SplitResidualPlan, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireError, AcquireResultView, AcquireScratch, AsyncCoordinationBackend, AsyncRunManagement,
    AsyncShardClaiming, CheckpointError, ClaimError, ClaimOutlook, Clock, CompleteError,
    CoordinationBackend, CreateRunError, CreateRunWithShardsError, DeclineError, HolderNotice,
    IdempotentOutcome, InMemoryCoordinator, Lease, ParkError, ParkReason, RegisterShardsError,
    ReleaseError, RenewError, RenewResult, RestoredShardState, RunConfig, RunManagement,
    RunProgress, RunQueryError, RunRecord, RunTransitionError, ShardClaiming, ShardFilter,
    ShardSummary, SplitReplaceError, SplitReplaceResult, SplitRequestError, SplitResidualError,
    SplitResidualResult, StateTransitionEvent, Synchronized, UnparkError,
};

use super::System;

#[derive(Clone, Debug, Default)]
struct CallersClock(Arc<AtomicU64>);

impl Clock for CallersClock {
    fn now(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A coordinator behind the async traits.
#[derive(Debug)]
pub struct Awaited {
    backend: Synchronized<InMemoryCoordinator, CallersClock>,
    clock: CallersClock,
}

impl Awaited {
    /// Puts the async traits around a coordinator.
    #[must_use]
    pub fn new(coordinator: InMemoryCoordinator) -> Self {
        let clock = CallersClock::default();
        Self { backend: Synchronized::new(coordinator, clock.clone()), clock }
    }

    /// The backend, at a caller's time.
    fn at(&self, now: LogicalTime) -> &Synchronized<InMemoryCoordinator, CallersClock> {
        self.clock.0.store(now.as_millis(), Ordering::Relaxed);
        &self.backend
    }
}

#[expect(clippy::panic, reason = "only a bug in the adapter under test can get here")]
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("something in memory waited"),
    }
}

fn restored<'s>(
    state: &RestoredShardState,
    scratch: &'s mut AcquireScratch,
) -> AcquireResultView<'s> {
    let snapshot = scratch.copy(&state.snapshot());
    AcquireResultView { lease: state.lease, snapshot, capacity: state.capacity }
}

/// What is left of a time span; the async traits take spans where the others take moments.
const fn from_now(now: LogicalTime, until: LogicalTime) -> u64 {
    until.as_millis().saturating_sub(now.as_millis())
}

impl System for Awaited {
    fn take_events(&mut self) -> Vec<StateTransitionEvent> {
        self.backend.lock().map_or_else(|_| Vec::new(), |mut backend| backend.take_events())
    }

    fn raise_fence_floor(&mut self, floor: FenceEpoch) {
        if let Ok(mut backend) = self.backend.lock() {
            backend.raise_fence_floor(floor);
        }
    }
}

impl ShardClaiming for Awaited {
    fn claim_next_available<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError> {
        let claimed = ready(self.at(now).claim_next_available(tenant, run, worker))?;
        Ok(restored(&claimed, scratch))
    }
}

impl CoordinationBackend for Awaited {
    fn acquire_and_restore_into<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, AcquireError> {
        let acquired = ready(self.at(now).acquire_and_restore(tenant, key, worker))?;
        Ok(restored(&acquired, scratch))
    }

    fn renew(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
    ) -> Result<RenewResult, RenewError> {
        ready(self.at(now).renew(tenant, lease))
    }

    fn checkpoint(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        ready(self.at(now).checkpoint(tenant, lease, cursor, op))
    }

    fn complete(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        ready(self.at(now).complete(tenant, lease, cursor, op))
    }

    fn park_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        ready(self.at(now).park_shard(tenant, lease, reason, detail, op))
    }

    fn release(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        ready(self.at(now).release(tenant, lease, op))
    }

    fn split_replace(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError> {
        ready(self.at(now).split_replace(tenant, lease, plan, op))
    }

    fn split_residual(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError> {
        ready(self.at(now).split_residual(tenant, lease, plan, op))
    }

    fn request_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        expires_at: LogicalTime,
    ) -> Result<(), SplitRequestError> {
        let patience_ms = from_now(now, expires_at);
        ready(self.at(now).request_split(tenant, key, asker, patience_ms))
    }

    fn decline_split(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        lease: &Lease,
        not_before: LogicalTime,
    ) -> Result<(), DeclineError> {
        ready(self.at(now).decline_split(tenant, lease, from_now(now, not_before)))
    }
}

impl RunManagement for Awaited {
    fn create_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
        ready(self.at(now).create_run(tenant, run, config))
    }

    fn register_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        ready(self.at(now).register_shards(tenant, run, shards, op))
    }

    fn create_run_with_shards(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        ready(self.at(now).create_run_with_shards(tenant, run, config, shards, op))
    }

    fn get_run(&mut self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        ready(self.backend.get_run(tenant, run))
    }

    fn get_run_progress(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        ready(self.at(now).get_run_progress(tenant, run))
    }

    fn list_shards_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
        out: &mut Vec<ShardSummary>,
    ) -> Result<(), RunQueryError> {
        *out = ready(self.at(now).list_shards(tenant, run, filter))?;
        Ok(())
    }

    fn complete_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        ready(self.at(now).complete_run(tenant, run, op))
    }

    fn fail_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        ready(self.at(now).fail_run(tenant, run, op))
    }

    fn cancel_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        ready(self.at(now).cancel_run(tenant, run, op))
    }

    fn pause_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        ready(self.at(now).pause_run(tenant, run, op))
    }

    fn resume_run(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        ready(self.at(now).resume_run(tenant, run, op))
    }

    fn unpark_shard(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        ready(self.at(now).unpark_shard(tenant, key, op))
    }

    fn collect_claim_candidates_into(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
        out: &mut Vec<ShardId>,
    ) -> Result<ClaimOutlook, RunQueryError> {
        let (shards, outlook) =
            ready(self.at(now).collect_claim_candidates(tenant, run, worker, limit))?;
        *out = shards;
        Ok(outlook)
    }
}
