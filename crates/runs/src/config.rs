use std::time::Duration;

use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_coordination::{CoordinatorRuntimeConfig, ShardLimits};
use shardwright_engine::setup::StoreOpenError;

use crate::collection::Retention;

/// Configuration of a stored coordinator.
#[derive(Clone, Copy, Debug)]
pub struct EngineConfig {
    /// Limits on the number of shards.
    pub limits: ShardLimits,
    /// Most shards that a growing run reserves ahead, so that most splits need no reservation. A
    /// run never reserves more shards ahead than it has.
    pub quota_block: u64,
    /// Most children per split, at least one.
    pub max_children_per_op: usize,
    /// Pause of a worker between two claims, in milliseconds.
    pub claim_cooldown_interval_ms: u64,
    /// Allowed clock skew between the processes of a store, in milliseconds. A lease is taken over
    /// this long after its deadline, unless its session has ended. A process that has just started
    /// may be ahead of the others by [`Self::clock_mark_interval_ms`]. So the allowance must be at
    /// least that, and should include the difference of the machines' wall clocks.
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
        /// TTL of the session, at least a millisecond.
        ttl: Duration,
    },
    /// The deadline alone. For a server whose workers run elsewhere: a restart of the server ends
    /// no lease.
    Deadline,
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineConfigError {
    /// Every session would expire before its first lease.
    #[error("the TTL of a session must be at least a millisecond")]
    ZeroSessionTtl,
    /// Every split would be refused.
    #[error("a split must be allowed to make at least one child")]
    ZeroChildren,
    /// A process that has just started could take over leases that are not over.
    #[error(
        "the skew allowance of {skew_allowance_ms} ms must be at least the interval of clock \
         marks, {clock_mark_interval_ms} ms"
    )]
    SkewBelowMarkInterval {
        /// The allowance, in milliseconds.
        skew_allowance_ms: u64,
        /// The interval, in milliseconds.
        clock_mark_interval_ms: u64,
    },
}

/// Error of opening a coordinator on a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorOpenError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] EngineConfigError),
    /// The content of the store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
}

/// Assumed difference of wall clocks between machines, in milliseconds.
const CALENDARS_DIFFER_MS: u64 = 1_000;
const CLOCK_MARK_INTERVAL_MS: u64 = 1_000;
/// Stores count a TTL in milliseconds.
const SHORTEST_TTL: Duration = Duration::from_millis(1);

impl EngineConfig {
    /// For a store that only processes of one machine use. They share a wall clock, so only a
    /// starting process can be ahead.
    #[must_use]
    pub fn on_one_machine() -> Self {
        Self { skew_allowance_ms: CLOCK_MARK_INTERVAL_MS, ..Self::default() }
    }

    /// Checks that the numbers fit together. Opening a coordinator does so too.
    pub fn check(&self) -> Result<(), EngineConfigError> {
        let Self { skew_allowance_ms, clock_mark_interval_ms, .. } = *self;
        if let LeaseBinding::Session { ttl } = self.sessions
            && ttl < SHORTEST_TTL
        {
            return Err(EngineConfigError::ZeroSessionTtl);
        }
        if self.max_children_per_op == 0 {
            return Err(EngineConfigError::ZeroChildren);
        }
        if skew_allowance_ms < clock_mark_interval_ms {
            return Err(EngineConfigError::SkewBelowMarkInterval {
                skew_allowance_ms,
                clock_mark_interval_ms,
            });
        }
        Ok(())
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
