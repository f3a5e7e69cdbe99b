use std::time::Duration;

use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_coordination::{CoordinatorRuntimeConfig, ShardLimits};

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
    /// How much the clocks of those who share the store may differ: a lease is taken over this many
    /// milliseconds after its deadline, unless its session has ended.
    pub skew_allowance_ms: u64,
    /// Whether what workers hold here is bound to the life of this process.
    pub sessions: Sessions,
    /// How often an operation is decided anew because something else was stored in between.
    pub conflict_retries: u32,
    /// How much time passes before the clock's mark is stored again, in milliseconds.
    pub clock_mark_interval_ms: u64,
    /// How many events a slow listener may be behind before it misses some.
    pub event_capacity: usize,
}

/// What binds leases to their owners besides the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sessions {
    /// One session of the store for all that is held through this coordinator. When it ends, so
    /// does everything held.
    Bound {
        /// How long the session outlives its last sign of life.
        ttl: Duration,
    },
    /// Nothing: only deadlines count. For a server whose workers are elsewhere, so that its restart
    /// takes nothing from them.
    Unbound,
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
            skew_allowance_ms: 1_000,
            sessions: Sessions::Bound { ttl: Duration::from_secs(10) },
            conflict_retries: 16,
            clock_mark_interval_ms: 1_000,
            event_capacity: 1_024,
        }
    }
}
