//! The settings of a world, drawn from the seed.

use std::collections::BTreeSet;
use std::time::Duration;

use shardwright_contracts::CursorSemantics;
use shardwright_coordination::{RunConfig, RunConfigError, ShardLimits};
use shardwright_runs::{EngineConfig, LeaseBinding};
use shardwright_store::StoreLimits;
use shardwright_worker::connector::PageLimit;
use shardwright_worker::{RetryPolicy, WorkerOptions};

use crate::rng::Rng;

/// Largest initial offset of a process's wall clock.
pub(super) const CLOCK_OFFSET_MS: u64 = 30;

/// The settings of one world.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Whether it has no faults and no failing items.
    pub(super) is_calm: bool,
    /// Whether all items are in one shard, with work for every worker.
    pub(super) is_lopsided: bool,
    /// Worker processes, without the operator's.
    pub(super) processes: usize,
    pub(super) items: u64,
    pub(super) shards: u64,
    /// Items that fail each time.
    pub(super) poisoned: BTreeSet<u64>,
    /// Items that crash the process.
    pub(super) killers: BTreeSet<u64>,
    /// Shortest and longest time that an item takes, in microseconds.
    pub(super) item_us: (u64, u64),
    pub(super) batch: usize,
    /// How many of a thousand tries fail.
    pub(super) failing_permille: u64,
    pub(super) worker: WorkerOptions,
    pub(super) run: RunConfig,
    pub(super) engine: EngineConfig,
    pub(super) store: StoreLimits,
    pub(super) serves_stale: bool,
    /// Whether an operator may cancel the run.
    pub(super) may_cancel: bool,
    /// Whether wall clocks may differ by more than the allowance.
    pub(super) may_skew: bool,
}

impl Settings {
    pub(super) fn draw(rng: &mut Rng) -> Result<Self, RunConfigError> {
        let is_calm = rng.chance(200);
        let is_lopsided = is_calm && rng.chance(700);
        let item_us = match is_lopsided {
            true => (20_000, 45_000),
            false => {
                *rng.pick(&[(100, 3_000), (1_000, 20_000), (5_000, 60_000)]).unwrap_or(&(1, 1))
            }
        };
        let items = match item_us {
            _ if is_lopsided => rng.between(120, 200),
            // Enough to run far ahead of an item that waits.
            (100, _) => rng.between(10, 300),
            _ => rng.between(10, 120),
        };
        let mut choose = |most: u64| -> BTreeSet<u64> {
            let count = if is_calm || rng.chance(500) { 0 } else { rng.between(1, most) };
            (0..count).map(|_| rng.below(items)).collect()
        };
        let (poisoned, killers) = (choose(4), choose(1));
        let lease_ms = rng.between(300, 1_500);
        let retries = rng.chance(400).then(|| rng.between(4, 9) as u32);
        Ok(Self {
            is_calm,
            is_lopsided,
            processes: rng.between(2, 3) as usize,
            items,
            shards: if is_lopsided { 1 } else { rng.between(1, 5) },
            poisoned,
            killers,
            item_us,
            batch: rng.between(1, 3) as usize,
            failing_permille: *rng.pick(&[40, 200]).unwrap_or(&40),
            worker: options(rng, is_lopsided),
            run: RunConfig::try_new(CursorSemantics::Completed, lease_ms, retries)?,
            engine: engine(rng),
            store: StoreLimits {
                expectations: 256,
                writes: if rng.chance(300) { 17 } else { 1_024 },
                key_bytes: 1_024,
                bytes: 4 << 20,
            },
            serves_stale: !is_calm && rng.chance(400),
            may_cancel: !is_calm && rng.chance(100),
            may_skew: !is_calm && rng.chance(300),
        })
    }
}

fn options(rng: &mut Rng, is_lopsided: bool) -> WorkerOptions {
    let millis = Duration::from_millis;
    WorkerOptions {
        slots: rng.between(1, 2) as usize,
        in_flight: if is_lopsided { 1 } else { rng.between(1, 4) as usize },
        commit_interval: millis(rng.between(5, 80)),
        commit_items: rng.between(1, 30),
        retry: retry(rng),
        page: PageLimit::items(rng.between(1, 20) as usize),
        least_split: millis(rng.between(1, 30)),
        estimate_interval: millis(rng.between(20, 300)),
        extents_max: rng.between(2, 6) as usize,
        crash_limit: rng.between(2, 5) as u32,
        store_timeout: Duration::from_secs(rng.between(1, 20)),
    }
}

/// An item is split off when it waits for longer than a second.
fn retry(rng: &mut Rng) -> RetryPolicy {
    let (low, high) = *rng.pick(&[(1, 20), (100, 600), (2_500, 5_000)]).unwrap_or(&(1, 1));
    let first_wait_ms = rng.between(low, high);
    RetryPolicy {
        retries: rng.between(1, 3) as u32,
        first_wait: Duration::from_millis(first_wait_ms),
        longest_wait: Duration::from_millis(first_wait_ms.max(rng.between(200, 3_000))),
    }
}

fn engine(rng: &mut Rng) -> EngineConfig {
    let clock_mark_interval_ms = rng.between(20, 120);
    EngineConfig {
        limits: ShardLimits { per_tenant: 400, total: 600 },
        quota_block: rng.between(1, 12),
        // The least that the configuration allows: the mark's interval and the clock difference.
        skew_allowance_ms: clock_mark_interval_ms + 2 * CLOCK_OFFSET_MS + 1,
        sessions: match rng.chance(600) {
            true => LeaseBinding::Session { ttl: Duration::from_millis(rng.between(250, 900)) },
            false => LeaseBinding::Deadline,
        },
        clock_mark_interval_ms,
        event_capacity: 8,
        ..EngineConfig::default()
    }
}
