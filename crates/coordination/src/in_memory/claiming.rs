use shardwright_contracts::{LogicalTime, RunId, TenantId, WorkerId};

use super::InMemoryCoordinator;
use crate::error::ClaimError;
use crate::facade::{ShardClaiming, claim};
use crate::guard::check_handing_out;
use crate::restore::{AcquireResultView, AcquireScratch};

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
        check_handing_out::<ClaimError>(&self.run_mut(tenant, run)?.record.gate(floor))?;
        match claim(self, now, tenant, run, worker, scratch) {
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
