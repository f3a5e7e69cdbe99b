use shardwright_contracts::{LogicalTime, RunId, ShardKey, TenantId, WorkerId};

use super::InMemoryCoordinator;
use crate::error::ClaimError;
use crate::facade::{CandidateWalk, ShardClaiming};
use crate::guard::check_handing_out;
use crate::lease::Lease;
use crate::operation::{Claim, CollectClaimCandidates};
use crate::ops::RunCall;
use crate::restore::{AcquireResultView, AcquireScratch, CapacityHint, RestoredShardState};
use crate::traits::CoordinationBackend;

/// Candidates to try before the next ones are collected.
const CANDIDATES_AT_A_TIME: usize = 16;

impl ShardClaiming for InMemoryCoordinator {
    fn claim_next_available<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError> {
        self.cooldowns.check(now, tenant, worker)?;
        let floor = self.config.fence_floor;
        check_handing_out::<ClaimError>(&self.run_mut(tenant, run)?.record.state(floor))?;
        match self.walk_candidates(RunCall { now, tenant }, Claim { run, worker }, scratch) {
            Ok((lease, capacity)) => {
                let interval_ms = self.config.claim_cooldown_interval_ms;
                self.cooldowns.start(now, tenant, worker, interval_ms);
                Ok(AcquireResultView { lease, snapshot: scratch.snapshot(), capacity })
            }
            Err(error) => {
                if matches!(error, ClaimError::NoneAvailable(_)) {
                    let state = self.run_mut(tenant, run)?;
                    state.waiting.wait(worker, state.record.config.waiting_until(now));
                }
                Err(error)
            }
        }
    }
}

impl InMemoryCoordinator {
    pub(super) fn claim(
        &mut self,
        call: RunCall,
        request: &Claim,
    ) -> Result<RestoredShardState, ClaimError> {
        let RunCall { now, tenant } = call;
        let Claim { run, worker } = *request;
        let mut scratch = AcquireScratch::new();
        let claimed = self.claim_next_available(now, tenant, run, worker, &mut scratch)?;
        Ok(RestoredShardState::from_view(&claimed))
    }

    /// Finds a shard of the run that the worker can acquire, and acquires it into `scratch`.
    ///
    /// The acquire decides. The list of candidates is a hint.
    fn walk_candidates(
        &mut self,
        call: RunCall,
        claim: Claim,
        scratch: &mut AcquireScratch,
    ) -> Result<(Lease, CapacityHint), ClaimError> {
        let (RunCall { now, tenant }, Claim { run, worker }) = (call, claim);
        let mut candidates = Vec::with_capacity(CANDIDATES_AT_A_TIME);
        let mut walk = CandidateWalk::new(0);
        loop {
            let limit = walk.limit(CANDIDATES_AT_A_TIME);
            let request = CollectClaimCandidates { run, worker, limit };
            let found = self.candidates(call, &request, &mut candidates)?;
            candidates.retain(|candidate| !walk.has_skipped(*candidate));
            if candidates.is_empty() {
                return Err(walk.none(found.earliest_deadline).into());
            }
            for &shard in &candidates {
                let key = ShardKey::new(run, shard);
                match self.acquire_and_restore_into(now, tenant, key, worker, scratch) {
                    Ok(acquired) => return Ok((acquired.lease, acquired.capacity)),
                    Err(refusal) => _ = walk.skip(shard, refusal)?,
                }
            }
        }
    }
}
