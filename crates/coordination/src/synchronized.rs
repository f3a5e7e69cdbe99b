//! A backend of the sync traits as one of the async traits: a mutex and a clock around it.

use std::sync::{Mutex, MutexGuard};

use shardwright_contracts::{
    CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardKey, SplitReplacePlan,
    SplitResidualPlan, TenantId, WorkerId,
};

use crate::async_traits::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, Clock,
};
use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, CreateRunError, DeclineError,
    InfraError, ParkError, RegisterShardsError, ReleaseError, RenewError, RunQueryError,
    RunTransitionError, SplitReplaceError, SplitRequestError, SplitResidualError, UnparkError,
};
use crate::facade::ShardClaiming;
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::ops::{SplitReplaceResult, SplitResidualResult};
use crate::progress::RunProgress;
use crate::record::{RunConfig, RunRecord};
use crate::restore::{AcquireScratch, HolderNotice, RenewResult, RestoredShardState};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{ClaimOutlook, CoordinationBackend, CreateRunWithShardsError, RunManagement};

/// Makes a backend shareable: one call at a time, at the clock's time.
#[derive(Debug)]
pub struct Synchronized<B, C> {
    backend: Mutex<B>,
    clock: C,
}

impl<B, C> Synchronized<B, C> {
    /// Puts a mutex and a clock around a backend.
    pub const fn new(backend: B, clock: C) -> Self {
        Self { backend: Mutex::new(backend), clock }
    }

    /// The backend itself, while nobody else calls it. One whose operation was stopped by a broken
    /// invariant is not to be used any more.
    pub fn lock(&self) -> Result<MutexGuard<'_, B>, InfraError> {
        self.backend.lock().map_err(|_| InfraError::Corrupt {
            operation: "synchronized.lock",
            message: "an earlier operation found the backend's records broken".into(),
        })
    }
}

impl<B: CoordinationBackend + Send, C: Clock> AsyncCoordinationBackend for Synchronized<B, C> {
    async fn acquire_and_restore(
        &self,
        tenant: TenantId,
        key: ShardKey,
        worker: WorkerId,
    ) -> Result<RestoredShardState, AcquireError> {
        let mut scratch = AcquireScratch::new();
        // The clock is read when it is our turn, or the wait would shorten the lease.
        let (mut backend, now) = (self.lock()?, self.clock.now());
        let acquired = backend.acquire_and_restore_into(now, tenant, key, worker, &mut scratch)?;
        Ok(RestoredShardState::from_view(&acquired))
    }

    async fn renew(&self, tenant: TenantId, lease: &Lease) -> Result<RenewResult, RenewError> {
        self.lock()?.renew(self.clock.now(), tenant, lease)
    }

    async fn checkpoint(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<Option<HolderNotice>>, CheckpointError> {
        self.lock()?.checkpoint(self.clock.now(), tenant, lease, cursor, op)
    }

    async fn complete(
        &self,
        tenant: TenantId,
        lease: &Lease,
        cursor: CursorUpdate<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CompleteError> {
        self.lock()?.complete(self.clock.now(), tenant, lease, cursor, op)
    }

    async fn park_shard(
        &self,
        tenant: TenantId,
        lease: &Lease,
        reason: ParkReason,
        detail: &[u8],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ParkError> {
        self.lock()?.park_shard(self.clock.now(), tenant, lease, reason, detail, op)
    }

    async fn release(
        &self,
        tenant: TenantId,
        lease: &Lease,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, ReleaseError> {
        self.lock()?.release(self.clock.now(), tenant, lease, op)
    }

    async fn split_replace(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitReplaceResult>, SplitReplaceError> {
        self.lock()?.split_replace(self.clock.now(), tenant, lease, plan, op)
    }

    async fn split_residual(
        &self,
        tenant: TenantId,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        op: OpId,
    ) -> Result<IdempotentOutcome<SplitResidualResult>, SplitResidualError> {
        self.lock()?.split_residual(self.clock.now(), tenant, lease, plan, op)
    }

    async fn request_split(
        &self,
        tenant: TenantId,
        key: ShardKey,
        asker: WorkerId,
        patience_ms: u64,
    ) -> Result<(), SplitRequestError> {
        let (mut backend, now) = (self.lock()?, self.clock.now());
        backend.request_split(now, tenant, key, asker, now.saturating_add(patience_ms))
    }

    async fn decline_split(
        &self,
        tenant: TenantId,
        lease: &Lease,
        pause_ms: u64,
    ) -> Result<(), DeclineError> {
        let (mut backend, now) = (self.lock()?, self.clock.now());
        backend.decline_split(now, tenant, lease, now.saturating_add(pause_ms))
    }
}

impl<B: RunManagement + Send, C: Clock> AsyncRunManagement for Synchronized<B, C> {
    async fn create_run(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
    ) -> Result<(), CreateRunError> {
        self.lock()?.create_run(self.clock.now(), tenant, run, config)
    }

    async fn register_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
        self.lock()?.register_shards(self.clock.now(), tenant, run, shards, op)
    }

    async fn create_run_with_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        config: RunConfig,
        shards: &[InitialShardInput<'_>],
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, CreateRunWithShardsError> {
        let mut backend = self.lock().map_err(CreateRunError::from)?;
        backend.create_run_with_shards(self.clock.now(), tenant, run, config, shards, op)
    }

    async fn get_run(&self, tenant: TenantId, run: RunId) -> Result<RunRecord, RunQueryError> {
        self.lock()?.get_run(tenant, run)
    }

    async fn get_run_progress(
        &self,
        tenant: TenantId,
        run: RunId,
    ) -> Result<RunProgress, RunQueryError> {
        self.lock()?.get_run_progress(self.clock.now(), tenant, run)
    }

    async fn list_shards(
        &self,
        tenant: TenantId,
        run: RunId,
        filter: ShardFilter,
    ) -> Result<Vec<ShardSummary>, RunQueryError> {
        let mut out = Vec::new();
        self.lock()?.list_shards_into(self.clock.now(), tenant, run, filter, &mut out)?;
        Ok(out)
    }

    async fn complete_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.lock()?.complete_run(self.clock.now(), tenant, run, op)
    }

    async fn fail_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.lock()?.fail_run(self.clock.now(), tenant, run, op)
    }

    async fn cancel_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.lock()?.cancel_run(self.clock.now(), tenant, run, op)
    }

    async fn pause_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.lock()?.pause_run(self.clock.now(), tenant, run, op)
    }

    async fn resume_run(
        &self,
        tenant: TenantId,
        run: RunId,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, RunTransitionError> {
        self.lock()?.resume_run(self.clock.now(), tenant, run, op)
    }

    async fn collect_claim_candidates(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
    ) -> Result<(Vec<ShardId>, ClaimOutlook), RunQueryError> {
        let mut out = Vec::new();
        let (mut backend, now) = (self.lock()?, self.clock.now());
        let outlook =
            backend.collect_claim_candidates_into(now, tenant, run, worker, limit, &mut out)?;
        Ok((out, outlook))
    }

    async fn unpark_shard(
        &self,
        tenant: TenantId,
        key: ShardKey,
        op: OpId,
    ) -> Result<IdempotentOutcome<()>, UnparkError> {
        self.lock()?.unpark_shard(self.clock.now(), tenant, key, op)
    }
}

impl<B: ShardClaiming + Send, C: Clock> AsyncShardClaiming for Synchronized<B, C> {
    async fn claim_next_available(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
    ) -> Result<RestoredShardState, ClaimError> {
        let mut scratch = AcquireScratch::new();
        let (mut backend, now) = (self.lock()?, self.clock.now());
        let claimed = backend.claim_next_available(now, tenant, run, worker, &mut scratch)?;
        Ok(RestoredShardState::from_view(&claimed))
    }
}

#[cfg(test)]
mod tests;
