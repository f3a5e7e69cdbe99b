use std::time::Duration;

use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_coordination::{CoordinatorRuntimeConfig, ShardLimits};

use crate::collection::Retention;

/// How a stored coordinator works.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// How many shards there may be.
    pub limits: ShardLimits,
    /// How many shards a run reserves at a time, so that not every split asks for room.
    pub quota_block: u64,
    /// Most children that one split publishes.
    pub max_children_per_op: usize,
    /// How long a worker waits between two claims, in milliseconds.
    pub claim_cooldown_interval_ms: u64,
    /// How much the times of those who share the store may differ: a lease is taken over this many
    /// milliseconds after its deadline, unless its session has ended. Whoever has just started may
    /// be ahead of the others by [`Self::clock_mark_interval_ms`], so it should be at least that
    /// plus what the calendars of machines differ by.
    pub skew_allowance_ms: u64,
    /// What ends the leases that are granted here.
    pub sessions: LeaseBinding,
    /// How often an operation is decided anew because something else was stored in between.
    pub conflict_retries: u32,
    /// How much time passes before the clock's mark is stored again, in milliseconds.
    pub clock_mark_interval_ms: u64,
    /// Number of events that a slow subscriber may lag behind before it loses some.
    pub event_capacity: usize,
    /// How long runs are kept. What is older is taken away by itself.
    pub retention: Retention,
    /// How often what nobody needs any more is looked for, at most once a second. A coordinator
    /// that lives shorter than that takes nothing away by itself.
    pub collection_interval: Duration,
}

/// What ends a lease that is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseBinding {
    /// The deadline, or the end of the session that all leases of this coordinator share.
    Session {
        /// How long the session outlives its last renewal.
        ttl: Duration,
    },
    /// The deadline alone. For a server whose workers run elsewhere: its restart ends no lease.
    Deadline,
}

/// How much the calendars of machines may differ.
const CALENDARS_DIFFER_MS: u64 = 1_000;
const CLOCK_MARK_INTERVAL_MS: u64 = 1_000;

impl EngineConfig {
    /// For a store that only processes of one machine use. They have one calendar, and differ only
    /// by what one that has just started may be ahead.
    #[must_use]
    pub fn on_one_machine() -> Self {
        Self { skew_allowance_ms: CLOCK_MARK_INTERVAL_MS, ..Self::default() }
    }
}

impl Default for EngineConfig {
    fn default() -> Self {
        let CoordinatorRuntimeConfig { max_shards_per_tenant, max_total_shards, .. } =
            CoordinatorRuntimeConfig::default();
        Self {
            limits: ShardLimits { per_tenant: max_shards_per_tenant, total: max_total_shards },
            quota_block: 64,
            max_children_per_op: MAX_SPLIT_CHILDREN,
            claim_cooldown_interval_ms: 0,
            skew_allowance_ms: CALENDARS_DIFFER_MS + CLOCK_MARK_INTERVAL_MS,
            sessions: LeaseBinding::Session { ttl: Duration::from_secs(10) },
            conflict_retries: 16,
            clock_mark_interval_ms: CLOCK_MARK_INTERVAL_MS,
            event_capacity: 1_024,
            retention: Retention::default(),
            collection_interval: Duration::from_secs(600),
        }
    }
}
