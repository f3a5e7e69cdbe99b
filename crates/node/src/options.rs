use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use shardwright_api::limits::HeldLimits;
use shardwright_placement::HandoverTimeouts;

/// How objects are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// The largest number of calls that wait for one object. They use no slots of calls that wait
    /// for a shard, so a busy object fails no calls but its own.
    pub calls_per_object_max: u64,
    /// How far a call may exceed its timeout before it is cancelled and its object is dropped.
    /// Until then its shard cannot be handed over.
    pub overrun_max: Duration,
    /// The timeout for the deactivation of an object. Calls to its shard are held meanwhile. The
    /// remaining objects are dropped if none ends within it, or if all together take twelve times
    /// as long.
    pub deactivation_max: Duration,
    /// The timeout of an activation without a call.
    pub activation_max: Duration,
    /// An object without a call for this time is evicted. `None` disables it.
    pub idle_max: Option<Duration>,
    /// The largest number of active objects on the node. Beyond it, the least recently used object
    /// is evicted before another is activated. Objects in use are not evicted, so calls at the same
    /// time may exceed it. Objects that are loaded automatically are neither counted nor evicted.
    pub objects_max: u64,
    /// Whether a call to a draining shard fails at once instead of being held.
    pub strict: bool,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            calls_per_object_max: HeldLimits::NODE.calls.all,
            overrun_max: Duration::from_secs(5),
            deactivation_max: Duration::from_secs(5),
            activation_max: Duration::from_secs(10),
            idle_max: Some(Duration::from_secs(600)),
            objects_max: 100_000,
            strict: false,
        }
    }
}

/// Objects that every shard has, loaded without a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutoLoad {
    /// The type of the objects.
    pub object_type: Arc<str>,
    /// The part of their ids after `shard#<n>/`.
    pub name: Arc<str>,
}

/// Options of a node, besides the cluster's configuration.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// How objects are served. The cluster's configuration overrides `strict`.
    pub host: HostOptions,
    /// The node's share of the shards, relative to other nodes.
    pub weight: NonZeroU32,
    /// The limits of the calls of this process that wait for a shard.
    pub held: HeldLimits,
    /// Objects of which there is one in every shard.
    pub auto_load: Vec<AutoLoad>,
    /// Whether this node, as the leader, balances the load of shards instead of their number.
    pub balance_load: bool,
    /// The timeouts of a handover while calls run in the shard.
    pub handover: HandoverTimeouts,
    /// How long a draining node waits for others to claim its shards, before it releases them.
    pub drain_timeout: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            host: HostOptions::default(),
            weight: NonZeroU32::MIN,
            held: HeldLimits::NODE,
            auto_load: Vec::new(),
            balance_load: false,
            handover: HandoverTimeouts::default(),
            drain_timeout: Duration::from_secs(60),
        }
    }
}

/// Options of a gate, besides the cluster's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// The limits of the calls that wait for a shard.
    pub held: HeldLimits,
}

impl Default for GateOptions {
    fn default() -> Self {
        Self { held: HeldLimits::GATE }
    }
}
