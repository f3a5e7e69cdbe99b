//! Claiming any available shard of a run.

use std::future::pending;
use std::sync::PoisonError;
use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::error::reason::{RunNotFound, Throttled};
use shardwright_coordination::facade::{CandidateWalk, Skipped};
use shardwright_coordination::guard::check_handing_out;
use shardwright_coordination::operation::Claim;
use shardwright_coordination::{
    AcquireError, ClaimError, ClaimHint, InfraError, RestoredShardState, RunQueryError,
};
use shardwright_engine::codec::Record;
use shardwright_engine::listing;
use shardwright_engine::transact::{Settled, Tries};
use shardwright_engine::{Operation, operation};
use shardwright_store::{Commit, Expect, Revision};

use crate::coordinator::{Core, StoredCoordinator};
use crate::records::{RunStateRecord, WaitingWorkerRecord};
use crate::shard::ShardAddress;
use crate::view::RunView;

/// Candidates reserved at a time.
const CANDIDATES_AT_A_TIME: usize = 4;
const OPERATION: Operation = operation!("claim");

impl StoredCoordinator {
    pub(crate) async fn claim_next_available(
        &self,
        tenant: TenantId,
        request: Claim,
    ) -> Result<RestoredShardState, ClaimError> {
        let Claim { run, worker } = request;
        let now = self.core.now().await?;
        self.core.check_cooldown(now, tenant, worker)?;
        let view = self.core.view(tenant, run).await?;
        let (gate, gate_at) = self.open_gate(tenant, run, &view).await?;
        let lease_ms = gate.config.lease_duration_ms.get();
        match self.claim(tenant, run, worker, &view, lease_ms).await {
            Ok(acquired) => {
                self.core.start_cooldown(now, tenant, worker);
                Ok(acquired)
            }
            Err(ClaimError::NoneAvailable(reason)) => {
                let until = gate.config.waiting_until(now);
                self.wait(tenant, run, worker, until, gate_at).await;
                Err(reason.into())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn wait_until_claimable(&self, tenant: TenantId, run: RunId) {
        // Without a view there are no notifications. The caller's own timeout ends the wait.
        let Ok(view) = self.core.view(tenant, run).await else { return pending().await };
        let now = self.core.now_at_most().await;
        let deadline = view.capacity(now).earliest_deadline;
        let deadline_passes = async {
            match deadline {
                Some(deadline) => {
                    let left = Duration::from_millis(deadline.millis_since(now));
                    self.core.env.sleep(left).await;
                }
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = view.claimable() => {}
            () = deadline_passes => {}
        }
    }
}

impl StoredCoordinator {
    /// The gate of a run that hands out shards. If the view refuses, the stored gate decides.
    async fn open_gate(
        &self,
        tenant: TenantId,
        run: RunId,
        view: &RunView,
    ) -> Result<(RunStateRecord, Revision), ClaimError> {
        let fence_floor = self.core.fence_floor();
        let check = |gate: &RunStateRecord| {
            check_handing_out::<ClaimError>(&gate.for_run(run, fence_floor))
        };
        if let Some((gate, at)) = view.gate()
            && check(&gate).is_ok()
        {
            return Ok((gate, at));
        }
        let key = self.core.keys.gate(tenant, run);
        let (found, _) = self.core.load_one(&key, OPERATION).await?;
        let Some(found) = found else {
            self.core.check_gate(tenant, run, OPERATION).await?;
            return Err(RunNotFound { run }.into());
        };
        let gate = listing::decode(&found, OPERATION)?;
        check(&gate)?;
        Ok((gate, found.revision))
    }

    /// Claimable shards according to the view. A run that hands out no shards has none.
    pub(crate) async fn candidates(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        limit: usize,
    ) -> Result<(Vec<ShardId>, ClaimHint), RunQueryError> {
        let now = self.core.now_at_most().await;
        let view = self.core.view(tenant, run).await?;
        match self.open_gate(tenant, run, &view).await {
            Ok(_) => {}
            Err(ClaimError::RunNotFound(reason)) => return Err(reason.into()),
            Err(ClaimError::BackendError(reason)) => return Err(reason.into()),
            Err(_) => return Ok((Vec::new(), ClaimHint { earliest_deadline: None })),
        }
        let candidates = Reserved::new(&view, worker, now, limit);
        let earliest_deadline = view.capacity(now).earliest_deadline;
        Ok((candidates.shards.clone(), ClaimHint { earliest_deadline }))
    }

    async fn claim(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        view: &RunView,
        lease_ms: u64,
    ) -> Result<RestoredShardState, ClaimError> {
        let mut walk = CandidateWalk::new(self.core.config.skew_allowance_ms);
        // Retries nothing: a refused shard is no candidate of the next round.
        loop {
            let now = self.core.now().await?;
            let candidates = Reserved::new(view, worker, now, CANDIDATES_AT_A_TIME);
            if candidates.shards.is_empty() {
                return Err(walk.none(view.capacity(now).earliest_deadline).into());
            }
            for shard in &candidates.shards {
                let address = ShardAddress { tenant, key: ShardKey::new(run, *shard) };
                let refusal = match self.acquire(address, worker).await {
                    Ok(acquired) => return Ok(acquired),
                    Err(AcquireError::BackendError(InfraError::Corrupt { .. }))
                        if self.core.cache.take_damaged(address) =>
                    {
                        // Only this shard is unavailable. A repair sends no notification, so try
                        // again later.
                        view.note_held(*shard, now.saturating_add(lease_ms));
                        continue;
                    }
                    Err(refusal) => refusal,
                };
                match walk.skip(*shard, refusal)? {
                    Skipped::HeldUntil(deadline) => view.note_held(*shard, deadline),
                    // A stale read is followed by no notification, so try again later. A current
                    // one is followed by the watch.
                    Skipped::Stale => view.note_held(*shard, now.saturating_add(lease_ms)),
                    Skipped::Parked | Skipped::FenceExhausted => view.note_settled(*shard),
                }
            }
        }
    }

    /// Registers a worker as waiting. Failures are ignored, because the record is only a hint.
    async fn wait(
        &self,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        until: LogicalTime,
        gate_at: Revision,
    ) {
        let key = self.core.keys.waiting(tenant, run, worker);
        let gate = self.core.keys.gate(tenant, run);
        let value = WaitingWorkerRecord { until }.encode();
        let commit = Commit::builder().guard(gate, Expect::At(gate_at));
        let commit = match self.core.session().await {
            Ok(Some(session)) => commit.put_in_session(key, value, session),
            Ok(None) => commit.put(key, value),
            Err(_) => return,
        };
        let Ok(commit) = commit.build() else { return };
        let settled = self.core.driver.settle(OPERATION, &commit, Tries::Once).await;
        if let Ok(Settled::Stored(revision)) = settled {
            self.core.note_commit(tenant, run, revision, commit.writes());
        }
    }
}

impl Core {
    fn check_cooldown(
        &self,
        now: LogicalTime,
        tenant: TenantId,
        worker: WorkerId,
    ) -> Result<(), Throttled> {
        let cooldowns = self.cooldowns.lock().unwrap_or_else(PoisonError::into_inner);
        cooldowns.check(now, tenant, worker)
    }

    fn start_cooldown(&self, now: LogicalTime, tenant: TenantId, worker: WorkerId) {
        let mut cooldowns = self.cooldowns.lock().unwrap_or_else(PoisonError::into_inner);
        cooldowns.start(now, tenant, worker, self.config.claim_cooldown_interval_ms);
    }
}

/// Candidates that no other claim of this process tries. They are returned when the claim ends.
struct Reserved<'v> {
    view: &'v RunView,
    shards: Vec<ShardId>,
}

impl<'v> Reserved<'v> {
    fn new(view: &'v RunView, worker: WorkerId, now: LogicalTime, limit: usize) -> Self {
        Self { view, shards: view.reserve_candidates(worker, now, limit) }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.view.give_back(&self.shards);
    }
}
