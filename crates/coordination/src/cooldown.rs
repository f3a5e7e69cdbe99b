//! The minimum time between two claims of a worker.

use std::collections::BTreeMap;

use shardwright_contracts::{LogicalTime, TenantId, WorkerId};

use crate::error::reason::Throttled;

/// When each worker may claim again.
///
/// A granted claim starts the cooldown. A refused one does not.
#[derive(Clone, Debug, Default)]
pub struct ClaimCooldowns {
    retry_after: BTreeMap<(TenantId, WorkerId), LogicalTime>,
    /// The number of entries after the last sweep.
    after_sweep: usize,
}

impl ClaimCooldowns {
    /// No worker has claimed yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { retry_after: BTreeMap::new(), after_sweep: 0 }
    }

    /// Checks that a worker's last claim is long enough ago.
    pub fn check(
        &self,
        now: LogicalTime,
        tenant: TenantId,
        worker: WorkerId,
    ) -> Result<(), Throttled> {
        match self.retry_after.get(&(tenant, worker)) {
            Some(&retry_after) if now < retry_after => Err(Throttled { retry_after }),
            Some(_) | None => Ok(()),
        }
    }

    /// Starts the cooldown of a worker that was granted a shard.
    pub fn start(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        worker: WorkerId,
        interval_ms: u64,
    ) {
        if interval_ms == 0 {
            return;
        }
        self.retry_after.insert((tenant, worker), now.saturating_add(interval_ms));
        // Remove expired entries now and then, so that the map stays small.
        if self.retry_after.len() > 2 * self.after_sweep + 16 {
            self.retry_after.retain(|_, retry_after| now < *retry_after);
            self.after_sweep = self.retry_after.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId::from_bytes([1; 32]);

    #[test]
    fn cooldown_throttles_only_the_same_worker() {
        let (worker, at) = (WorkerId::from_raw(1), LogicalTime::from_millis);
        let mut cooldowns = ClaimCooldowns::new();
        cooldowns.start(at(10), TENANT, worker, 5);
        assert_eq!(cooldowns.check(at(14), TENANT, worker), Err(Throttled { retry_after: at(15) }));
        assert_eq!(cooldowns.check(at(15), TENANT, worker), Ok(()));
        assert_eq!(cooldowns.check(at(14), TENANT, WorkerId::from_raw(2)), Ok(()));
        assert_eq!(cooldowns.check(at(14), TenantId::from_bytes([2; 32]), worker), Ok(()));
    }

    #[test]
    fn expired_cooldowns_are_removed() {
        let mut cooldowns = ClaimCooldowns::new();
        for millis in 0..1_000 {
            let now = LogicalTime::from_millis(millis);
            cooldowns.start(now, TENANT, WorkerId::from_raw(millis), 5);
        }
        assert!(cooldowns.retry_after.len() < 30, "{}", cooldowns.retry_after.len());
    }
}
