use std::time::Duration;

use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_coordination::{CoordinatorRuntimeConfig, ShardLimits};

use crate::collection::Retention;

/// Configuration of a stored coordinator.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Limits on the number of shards.
    pub limits: ShardLimits,
    /// Shards that a run reserves at a time, so that most splits need no reservation.
    pub quota_block: u64,
    /// Most children per split.
    pub max_children_per_op: usize,
    /// Pause of a worker between two claims, in milliseconds.
    pub claim_cooldown_interval_ms: u64,
    /// Allowed clock skew between the processes of a store, in milliseconds. A lease is taken over
    /// this long after its deadline, unless its session has ended. A process that has just started
    /// may be ahead of the others by [`Self::clock_mark_interval_ms`]. So the allowance should be
    /// at least that plus the difference of the machines' wall clocks.
    pub skew_allowance_ms: u64,
    /// What ends the leases that this coordinator grants.
    pub sessions: LeaseBinding,
    /// Retries of a decision after a conflict.
    pub conflict_retries: u32,
    /// Interval between marks of the clock, in milliseconds.
    pub clock_mark_interval_ms: u64,
    /// Number of events that a slow subscriber may lag behind before it loses some.
    pub event_capacity: usize,
    /// Retention of runs, applied periodically.
    pub retention: Retention,
    /// Interval between collections, at least a second. A coordinator that lives shorter collects
    /// nothing.
    pub collection_interval: Duration,
}

/// What ends a lease that is not renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseBinding {
    /// The deadline, or the end of the session that all leases of this coordinator share.
    Session {
        /// TTL of the session.
        ttl: Duration,
    },
    /// The deadline alone. For a server whose workers run elsewhere: a restart of the server ends
    /// no lease.
    Deadline,
}

/// Assumed difference of wall clocks between machines, in milliseconds.
const CALENDARS_DIFFER_MS: u64 = 1_000;
const CLOCK_MARK_INTERVAL_MS: u64 = 1_000;

impl EngineConfig {
    /// For a store that only processes of one machine use. They share a wall clock, so only a
    /// starting process can be ahead.
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
