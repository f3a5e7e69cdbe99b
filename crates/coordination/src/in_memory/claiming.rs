use shardwright_contracts::{LogicalTime, RunId, TenantId, WorkerId};

use super::InMemoryCoordinator;
use crate::error::ClaimError;
use crate::error::reason::Throttled;
use crate::facade::{ShardClaiming, claim};
use crate::guard::check_handing_out;
use crate::planted::{self, Defect};
use crate::restore::{AcquireResultView, AcquireScratch};

impl InMemoryCoordinator {
    /// Checks that a worker's last claim is long enough ago.
    fn check_cooldown(
        &self,
        now: LogicalTime,
        tenant: TenantId,
        worker: WorkerId,
    ) -> Result<(), Throttled> {
        let cooldowns = self.tenants.get(&tenant).map(|tenant| &tenant.cooldowns);
        match cooldowns.and_then(|cooldowns| cooldowns.get(&worker)) {
            _ if planted::is_active(Defect::CooldownIgnored) => Ok(()),
            Some(&retry_after) if now < retry_after => Err(Throttled { retry_after }),
            Some(_) | None => Ok(()),
        }
    }

    fn start_cooldown(&mut self, now: LogicalTime, tenant: TenantId, worker: WorkerId) {
        let interval = self.config.claim_cooldown_interval_ms;
        if let Some(state) = self.tenants.get_mut(&tenant).filter(|_| interval > 0) {
            state.cooldowns.insert(worker, now.saturating_add(interval));
            // Forget the others whose time has come, now and then, so that the map stays small.
            if state.cooldowns.len() > 2 * state.cooldowns_after_sweep + 16 {
                state.cooldowns.retain(|_, retry_after| now < *retry_after);
                state.cooldowns_after_sweep = state.cooldowns.len();
            }
        }
    }
}

impl ShardClaiming for InMemoryCoordinator {
    fn claim_next_available<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError> {
        self.check_cooldown(now, tenant, worker)?;
        let floor = self.config.fence_floor;
        check_handing_out::<ClaimError>(&self.run_mut(tenant, run)?.record.gate(floor))?;
        match claim(self, now, tenant, run, worker, scratch) {
            Ok((lease, capacity)) => {
                self.start_cooldown(now, tenant, worker);
                Ok(AcquireResultView { lease, snapshot: scratch.snapshot(), capacity })
            }
            Err(error) => {
                if matches!(error, ClaimError::NoneAvailable(_)) {
                    let state = self.run_mut(tenant, run)?;
                    let patience = state.record.config.lease_duration_ms.get();
                    state.wait(worker, now.saturating_add(patience));
                }
                Err(error)
            }
        }
    }
}
