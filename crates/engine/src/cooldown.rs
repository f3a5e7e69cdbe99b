use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use shardwright_contracts::{LogicalTime, TenantId, WorkerId};
use shardwright_coordination::error::reason::Throttled;

/// When each worker may claim again.
#[derive(Default)]
pub(crate) struct Cooldowns {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    until: BTreeMap<(TenantId, WorkerId), LogicalTime>,
    /// How many were left when those whose time had come were last forgotten.
    after_sweep: usize,
}

impl Cooldowns {
    pub(crate) fn check(
        &self,
        tenant: TenantId,
        worker: WorkerId,
        now: LogicalTime,
    ) -> Result<(), Throttled> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.until.get(&(tenant, worker)) {
            Some(&retry_after) if now < retry_after => Err(Throttled { retry_after }),
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn start(
        &self,
        tenant: TenantId,
        worker: WorkerId,
        now: LogicalTime,
        interval_ms: u64,
    ) {
        if interval_ms == 0 {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.until.insert((tenant, worker), now.saturating_add(interval_ms));
        // Forget those whose time has come, now and then, so that the map stays small.
        if state.until.len() > 2 * state.after_sweep + 16 {
            state.until.retain(|_, retry_after| now < *retry_after);
            state.after_sweep = state.until.len();
        }
    }
}
