//! Taking whichever shard of a run can be had.

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
use shardwright_engine::fault;
use shardwright_engine::transact::{Settled, Tries};
use shardwright_store::{Commit, Expect, Revision, Store};

use crate::coordinator::{Core, StoredCoordinator};
use crate::records::{RunStateRecord, WaitingWorkerRecord};
use crate::shard::ShardAddress;
use crate::view::RunView;

/// How many candidates are taken out of the view at a time.
const CANDIDATES_AT_A_TIME: usize = 4;
const OPERATION: &str = "claim";

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
        // Without a view nobody can tell; the caller's own limit ends the wait.
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
    /// The gate of a run that hands out shards. What the view says against it is looked up.
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
        let loaded = self.core.store.load(std::slice::from_ref(&key)).await;
        let snapshot = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        let Some(found) = snapshot.values.into_iter().next().flatten() else {
            self.core.check_gate(tenant, run, OPERATION).await?;
            return Err(RunNotFound { run }.into());
        };
        let gate = RunStateRecord::decode(&found.value)
            .map_err(|error| fault::decode(OPERATION, &error))?;
        check(&gate)?;
        Ok((gate, found.revision))
    }

    /// What could be tried, as far as the view knows; nothing of a run that hands out nothing.
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
        let mut walk = CandidateWalk::new();
        loop {
            let now = self.core.now().await?;
            let candidates = Reserved::new(view, worker, now, CANDIDATES_AT_A_TIME);
            if candidates.shards.is_empty() {
                return Err(walk.none(view.capacity(now).earliest_deadline).into());
            }
            for shard in &candidates.shards {
                let place = ShardAddress { tenant, key: ShardKey::new(run, *shard) };
                let refusal = match self.acquire(place, worker).await {
                    Ok(acquired) => return Ok(acquired),
                    Err(AcquireError::BackendError(InfraError::Corrupt { .. }))
                        if self.core.cache.take_damaged(place) =>
                    {
                        // A damaged shard is out of work, and no other is. Somebody may repair it,
                        // of which nobody tells.
                        view.note_held(*shard, now.saturating_add(lease_ms));
                        continue;
                    }
                    Err(refusal) => refusal,
                };
                match walk.skip(*shard, refusal)? {
                    Skipped::HeldUntil(deadline) => view.note_held(*shard, deadline),
                    // If that was an old read, nobody will tell; if not, the watch does.
                    Skipped::Stale => view.note_held(*shard, now.saturating_add(lease_ms)),
                    Skipped::Parked | Skipped::FenceExhausted => view.note_settled(*shard),
                }
            }
        }
    }

    /// Counts a worker as waiting. It is a courtesy to others: if it fails, nobody is wronged.
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

/// Candidates that nobody else here tries at the same time. However the claim ends, they are
/// given back.
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
