use crate::sharding::{ShardCount, Sharding};

/// The configuration of a cluster. The defaults are those of its specification where it names one.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// The hash and the number of shards.
    pub sharding: Sharding,
    /// How long the membership must be stable before the first placement and before rebalancing.
    /// Shards of dead and draining nodes do not wait.
    pub cluster_state_stability_duration_ms: u64,
    /// How often nodes check for work without a notification.
    pub shard_mapping_check_interval_ms: u64,
    /// Maximum shards that move for balance at the same time. [`None`] means `max(1, num_shards /
    /// 128)`.
    pub rebalance_shards_batch_size: Option<u32>,
    /// How far the fullest and the emptiest node may differ before a rebalance starts, as a
    /// fraction of the ideal number of shards.
    pub imbalance_threshold: f64,
    /// Minimum number of nodes for placing and moving shards.
    pub min_quorum: usize,
    /// Whether a rebalance stops at the threshold where it would not start, instead of at an even
    /// spread.
    pub stop_at_threshold: bool,
    /// Whether a call without an owner fails at once, instead of waiting within its deadline.
    pub strict: bool,
    /// Maximum shards that one node gives or gets at the same time.
    pub in_flight_per_node_max: u32,
    /// Maximum shards in flight at the same time.
    pub in_flight_max: u32,
    /// How long a shard stays after a move, except for forced moves.
    pub move_cooldown_ms: u64,
    /// After this time a shard in flight is reported as stuck and no longer delays others.
    pub stuck_after_ms: u64,
    /// How to treat a pinned shard whose node is gone.
    pub pin_policy: PinPolicy,
    /// How load is balanced, where loads are known.
    pub load: LoadBands,
    /// After this time a waiting call is retried without a notification.
    pub moving_retry_ms: u64,
}

/// How to treat a pinned shard whose node is gone or draining.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinPolicy {
    /// Another node holds it until its own node is back.
    #[default]
    SpillAndReturn,
    /// It waits for its node, and so do its calls.
    Wait,
}

/// When load is moved, as multiples of a node's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadBands {
    /// Rebalancing starts when a node has more than this, or as much less than one.
    pub start: f64,
    /// Rebalancing stops when no node is further from one than this.
    pub stop: f64,
    /// The minimum cost of a shard, as a fraction of the mean load. Without it all idle shards
    /// could be placed on one node.
    pub reserve: f64,
}

impl Default for LoadBands {
    fn default() -> Self {
        Self { start: 1.10, stop: 1.05, reserve: 0.10 }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            sharding: Sharding::default(),
            cluster_state_stability_duration_ms: 10_000,
            shard_mapping_check_interval_ms: 5_000,
            rebalance_shards_batch_size: None,
            imbalance_threshold: 0.2,
            min_quorum: 1,
            stop_at_threshold: false,
            strict: false,
            in_flight_per_node_max: 512,
            in_flight_max: 4_096,
            move_cooldown_ms: 60_000,
            stuck_after_ms: 60_000,
            pin_policy: PinPolicy::default(),
            load: LoadBands::default(),
            moving_retry_ms: 50,
        }
    }
}

/// Why a configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A number must be at least one.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// A fraction must be a number that is not negative.
    #[error("{0} must be a number and not negative")]
    NotAFraction(&'static str),
    /// The load bands must be nested.
    #[error("load.stop must be at least 1, and load.start above it and below 2")]
    Bands,
}

impl ClusterConfig {
    /// The defaults for a number of shards.
    #[must_use]
    pub fn with_num_shards(num_shards: ShardCount) -> Self {
        Self { sharding: Sharding { num_shards, ..Sharding::default() }, ..Self::default() }
    }

    /// Maximum shards that move for balance at the same time.
    #[must_use]
    pub fn batch_size(&self) -> u32 {
        let by_count = || (self.sharding.num_shards.get() / 128).max(1);
        self.rebalance_shards_batch_size.unwrap_or_else(by_count)
    }

    /// Checks that the numbers are consistent.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (name, value) in [
            ("shard_mapping_check_interval_ms", self.shard_mapping_check_interval_ms),
            ("rebalance_shards_batch_size", self.batch_size().into()),
            ("min_quorum", self.min_quorum as u64),
            ("in_flight_per_node_max", self.in_flight_per_node_max.into()),
            ("in_flight_max", self.in_flight_max.into()),
            ("stuck_after_ms", self.stuck_after_ms),
            ("moving_retry_ms", self.moving_retry_ms),
        ] {
            if value == 0 {
                return Err(ConfigError::Zero(name));
            }
        }
        for (name, value) in
            [("imbalance_threshold", self.imbalance_threshold), ("load.reserve", self.load.reserve)]
        {
            if !value.is_finite() || value < 0.0 {
                return Err(ConfigError::NotAFraction(name));
            }
        }
        let LoadBands { start, stop, .. } = self.load;
        if stop >= 1.0 && start > stop && start < 2.0 { Ok(()) } else { Err(ConfigError::Bands) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut ClusterConfig)) -> Result<(), ConfigError> {
        let mut config = ClusterConfig::default();
        change(&mut config);
        config.validate()
    }

    #[test]
    fn defaults_are_those_of_the_specification() {
        let config = ClusterConfig::default();
        assert_eq!(config.validate(), Ok(()));
        assert_eq!(config.sharding.num_shards.get(), 8_192);
        assert_eq!(config.cluster_state_stability_duration_ms, 10_000);
        assert_eq!(config.shard_mapping_check_interval_ms, 5_000);
        assert_eq!(config.batch_size(), 64);
        assert!((config.imbalance_threshold - 0.2).abs() < f64::EPSILON);
        assert_eq!(config.min_quorum, 1);
        assert!(!config.stop_at_threshold && !config.strict);
    }

    #[test]
    fn batch_is_never_empty() {
        let of = |count| ClusterConfig::with_num_shards(ShardCount::try_new(count).unwrap());
        assert_eq!((of(1).batch_size(), of(64).batch_size(), of(256).batch_size()), (1, 1, 2));
    }

    #[test]
    fn invalid_numbers_are_refused() {
        assert_eq!(with(|one| one.min_quorum = 0), Err(ConfigError::Zero("min_quorum")));
        assert_eq!(with(|one| one.in_flight_max = 0), Err(ConfigError::Zero("in_flight_max")));
        let batch = with(|one| one.rebalance_shards_batch_size = Some(0));
        assert_eq!(batch, Err(ConfigError::Zero("rebalance_shards_batch_size")));
        for threshold in [f64::NAN, f64::INFINITY, -0.1] {
            let refused = with(|one| one.imbalance_threshold = threshold);
            assert_eq!(refused, Err(ConfigError::NotAFraction("imbalance_threshold")));
        }
        for (start, stop) in [(1.05, 1.10), (1.1, 1.1), (1.1, 0.9), (2.0, 1.1), (f64::NAN, 1.0)] {
            let refused = with(|one| (one.load.start, one.load.stop) = (start, stop));
            assert_eq!(refused, Err(ConfigError::Bands), "{start} {stop}");
        }
    }
}
