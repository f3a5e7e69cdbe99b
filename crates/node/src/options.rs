use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use shardwright_placement::HandoverTimeouts;

/// How objects are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Most calls that wait for their turn at one object. They take no place of those that wait
    /// for a shard, so that an object in demand fails no calls but its own.
    pub calls_per_object_max: u64,
    /// How much longer than it has time a call may run before it is broken off, and its object
    /// with it. Until then a shard with such a call cannot be handed over.
    pub overrun_max: Duration,
    /// Timeout for the deactivation of an object. Calls to its shard are held meanwhile. If no
    /// object of the shard ends within it, or all of them take twelve times as long, those that
    /// are left are dropped.
    pub deactivation_max: Duration,
    /// How long an object may take that is loaded without a call.
    pub activation_max: Duration,
    /// Whether a call to a shard that drains fails at once instead of being held.
    pub strict: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            calls_per_object_max: DEFAULT_QUEUE,
            overrun_max: Duration::from_secs(5),
            deactivation_max: Duration::from_secs(5),
            activation_max: Duration::from_secs(10),
            strict: false,
        }
    }
}

/// Objects that every shard has, loaded without a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoLoad {
    /// The type of the objects.
    pub object_type: Arc<str>,
    /// What follows `shard#<n>/` in their ids.
    pub name: Arc<str>,
}

/// How a node behaves, besides what the cluster's configuration says.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// How objects are served. Whether that is strict is the cluster's to say.
    pub host: HostOptions,
    /// The node's share of the shards, relative to those of others.
    pub weight: NonZeroU32,
    /// Most calls of this process that wait for a shard.
    pub queue_max: u64,
    /// Objects of which there is one in every shard.
    pub auto_load: Vec<AutoLoad>,
    /// Whether this node, when it leads, evens out what shards bear instead of their number.
    pub balance_load: bool,
    /// How patient the node is with calls that take long in a shard that is to go elsewhere.
    pub handover: HandoverTimeouts,
    /// How long a node that drains waits for others to take its shards, before it leaves them.
    pub drain_patience: Duration,
}

/// The calls that one process holds, or that wait for one object, unless configured otherwise.
const DEFAULT_QUEUE: u64 = 10_000;

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            host: HostOptions::default(),
            weight: NonZeroU32::MIN,
            queue_max: DEFAULT_QUEUE,
            auto_load: Vec::new(),
            balance_load: false,
            handover: HandoverTimeouts::default(),
            drain_patience: Duration::from_secs(60),
        }
    }
}

/// How a gate behaves, besides what the cluster's configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// Most calls that wait for a shard.
    pub queue_max: u64,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self { queue_max: DEFAULT_QUEUE }
    }
}
