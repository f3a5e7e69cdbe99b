//! The settings of a world, drawn from the seed.

use std::num::NonZeroU32;
use std::time::Duration;

use shardwright_cluster::{ClusterName, ClusterOptions};
use shardwright_engine::keyspace::Keyspace;
use shardwright_node::limits::{HeldLimits, Share};
use shardwright_node::{GateOptions, HostOptions, NodeOptions};
use shardwright_placement::{
    ClusterConfig, HandoverTimeouts, PinPolicy, ShardCount, ShardHash, Sharding,
};
use shardwright_store::StoreLimits;

use crate::rng::Rng;

/// The settings of one world.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// Whether there are planned changes and no faults, so that no call may fail.
    pub(super) is_calm: bool,
    /// Number of nodes that are started first, and of nodes that may join later.
    pub(super) nodes: usize,
    pub(super) spare_nodes: usize,
    pub(super) gates: usize,
    /// Weight of each node, by process.
    pub(super) weights: Vec<NonZeroU32>,
    pub(super) serves_stale: bool,
    /// Whether sessions may end before their TTL. A node learns of it too late.
    pub(super) ends_sessions_early: bool,
    pub(super) sets_clocks: bool,
    pub(super) options: ClusterOptions,
    pub(super) node: NodeOptions,
    pub(super) gate: GateOptions,
    pub(super) store: StoreLimits,
}

impl Settings {
    pub(super) fn draw(rng: &mut Rng) -> Result<Self, String> {
        let is_calm = rng.chance(300);
        let num_shards = ShardCount::try_new(rng.between(6, 40) as u32);
        let num_shards = num_shards.map_err(|error| error.to_string())?;
        let hash = if rng.chance(500) { ShardHash::Fnv1a32 } else { ShardHash::Avalanche64 };
        let per_node = rng.between(3, 12) as u32;
        let config = ClusterConfig {
            sharding: Sharding { num_shards, hash },
            cluster_state_stability_duration_ms: rng.between(100, 600),
            shard_mapping_check_interval_ms: rng.between(300, 900),
            rebalance_shards_batch_size: Some(rng.between(1, 4) as u32),
            imbalance_threshold: if rng.chance(500) { 0.0 } else { 0.05 },
            strict: !is_calm && rng.chance(200),
            in_flight_per_node_max: per_node,
            in_flight_max: per_node + rng.between(0, 10) as u32,
            move_cooldown_ms: rng.between(300, 2_500),
            stuck_after_ms: rng.between(1_500, 3_000),
            moving_retry_ms: rng.between(10, 60),
            pin_policy: draw_pin_policy(rng, is_calm),
            ..ClusterConfig::default()
        };
        let ttl_ms = rng.between(600, 1_500);
        let name = ClusterName::parse("sim").map_err(|error| error.to_string())?;
        let options = ClusterOptions {
            keys: Keyspace::bare(),
            session_ttl: Duration::from_millis(ttl_ms),
            session_margin: Duration::from_millis(ttl_ms * rng.between(15, 40) / 100),
            join_patience: Duration::from_millis(ttl_ms * 3),
            ..ClusterOptions::new(name, config)
        };
        let drain_timeout = drain_timeout(options.config.pin_policy);
        let is_crowded = !is_calm && rng.chance(250);
        let (idle_max, objects_max) = draw_eviction(rng);
        let host = HostOptions {
            idle_max,
            objects_max,
            overrun_max: Duration::from_millis(rng.between(100, 800)),
            deactivation_max: Duration::from_millis(500),
            calls_per_object_max: if is_crowded { 2 } else { 1_024 },
            ..HostOptions::default()
        };
        // In half of the worlds, a handover awaits running calls to their end from the beginning.
        // So a call that waits for the handover shows as a deadlock.
        let is_patient = host.overrun_max.as_millis().is_multiple_of(2);
        let force_ms = if is_patient { HandoverTimeouts::default().force_ms } else { 0 };
        let all = if is_crowded { rng.between(1, 3) } else { 10_000 };
        let held = HeldLimits { calls: Share { all, peer: all }, ..HeldLimits::GATE };
        let nodes = rng.between(2, 4) as usize;
        let spare_nodes = rng.between(0, 2) as usize;
        Ok(Self {
            is_calm,
            nodes,
            spare_nodes,
            weights: draw_weights(rng, nodes + spare_nodes),
            gates: rng.between(1, 2) as usize,
            serves_stale: !is_calm && rng.chance(400),
            ends_sessions_early: !is_calm && rng.chance(400),
            sets_clocks: !is_calm && rng.chance(500),
            options,
            node: NodeOptions {
                host,
                held,
                drain_timeout,
                handover: HandoverTimeouts { force_ms, ..HandoverTimeouts::default() },
                ..NodeOptions::default()
            },
            gate: GateOptions { held },
            store: StoreLimits { expectations: 256, writes: 256, key_bytes: 1_024, bytes: 4 << 20 },
        })
    }

    /// Weight of a process. That of a gate has no effect.
    pub(super) fn weight(&self, process: usize) -> NonZeroU32 {
        self.weights.get(process).copied().unwrap_or(NonZeroU32::MIN)
    }
}

/// In half of the worlds, objects are evicted soon, and a node may have only a few.
fn draw_eviction(rng: &mut Rng) -> (Option<Duration>, u64) {
    if rng.chance(500) {
        return (None, u64::MAX);
    }
    (Some(Duration::from_millis(rng.between(100, 1_500))), rng.between(1, 12))
}

/// In a calm world, pinned shards do not wait for a drained node.
fn draw_pin_policy(rng: &mut Rng, is_calm: bool) -> PinPolicy {
    if !is_calm && rng.chance(300) { PinPolicy::Wait } else { PinPolicy::SpillAndReturn }
}

/// If pinned shards wait for their node, they do not leave it while it drains.
const fn drain_timeout(policy: PinPolicy) -> Duration {
    match policy {
        PinPolicy::SpillAndReturn => Duration::from_secs(20),
        PinPolicy::Wait => Duration::from_secs(3),
    }
}

/// Mostly equal weights.
fn draw_weights(rng: &mut Rng, nodes: usize) -> Vec<NonZeroU32> {
    let heaviest = if rng.chance(400) { 3 } else { 1 };
    let draw = |_| NonZeroU32::new(rng.between(1, heaviest) as u32).unwrap_or(NonZeroU32::MIN);
    (0..nodes).map(draw).collect()
}
