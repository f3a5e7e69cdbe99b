//! The settings of a world, drawn from the seed.

use std::time::Duration;

use shardwright_coordination::ShardLimits;
use shardwright_runs::{EngineConfig, LeaseBinding};
use shardwright_store::StoreLimits;

use super::answers::Terms;
use crate::rng::Rng;

/// The settings of one world.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) processes: usize,
    /// Number of workers of each tenant.
    pub(crate) workers: Vec<usize>,
    pub(crate) open_runs: usize,
    pub(crate) engine: EngineConfig,
    pub(crate) store: StoreLimits,
    pub(crate) terms: Terms,
    /// Number of times that the store was restored from a backup before the world begins.
    pub(crate) restored: u32,
}

impl Settings {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let tenants = if rng.chance(800) { 2 } else { 1 };
        let (scarce, small_commits) = (rng.chance(120), rng.chance(300));
        let (per_tenant, total) = match scarce {
            true => (rng.between(12, 30) as usize, rng.between(16, 40) as usize),
            false => (400, 600),
        };
        let sessions = match rng.chance(850) {
            true => LeaseBinding::Session { ttl: Duration::from_millis(rng.between(250, 900)) },
            false => LeaseBinding::Deadline,
        };
        let (quota_block, over_ms) = (rng.between(1, 12), rng.between(0, 120));
        let clock_mark_interval_ms = rng.between(20, 200);
        let engine = EngineConfig {
            limits: ShardLimits { per_tenant, total },
            quota_block,
            skew_allowance_ms: clock_mark_interval_ms + over_ms,
            sessions,
            clock_mark_interval_ms,
            event_capacity: 8,
            ..EngineConfig::default()
        };
        let store = StoreLimits {
            expectations: 256,
            writes: if small_commits { 17 } else { 1_024 },
            key_bytes: 1_024,
            bytes: 4 << 20,
        };
        let serves_stale = rng.chance(450);
        let is_restored = rng.chance(250);
        Self {
            processes: rng.between(2, 4) as usize,
            workers: (0..tenants).map(|_| rng.between(2, 4) as usize).collect(),
            open_runs: rng.between(1, 2) as usize,
            engine,
            store,
            terms: Terms { serves_stale, small_commits },
            restored: if is_restored { rng.between(1, 3) as u32 } else { 0 },
        }
    }
}
