//! What can be said about clusters.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Subcommand};
use shardwright_cluster::ClusterName;
use shardwright_contracts::ShardId;
use shardwright_placement::{
    ClusterConfig, NodeAddress, PinPolicy, ShardCount, ShardHash, Sharding,
};

/// Which cluster.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterChoice {
    /// The cluster's name.
    #[arg(global = true, long = "cluster", value_name = "NAME", default_value = "main")]
    #[arg(value_parser = parse_name)]
    pub(crate) name: ClusterName,
    /// The cluster is stored as existing ones are: as text below PREFIX, like `/goverse`.
    #[arg(global = true, long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub(crate) seed_format: Option<String>,
    /// How many shards it has [default: what is stored; 8192 for a new one]. One that others keep
    /// as text may not tell, and then it must be said.
    #[arg(global = true, long, value_name = "N", value_parser = parse_count)]
    pub(crate) shards: Option<ShardCount>,
    /// How ids become shards: `fnv1a32` or `avalanche64` [default: what is stored; fnv1a32].
    #[arg(global = true, long, value_name = "HASH", value_parser = parse_hash)]
    pub(crate) hash: Option<ShardHash>,
    #[command(flatten)]
    pub(crate) behaviour: BehaviourArguments,
}

/// How a cluster behaves; all its nodes should be told the same.
#[derive(Args, Clone, Debug)]
pub(crate) struct BehaviourArguments {
    /// How long the same nodes must be there before shards are placed or balanced.
    #[arg(global = true, long, value_name = "MS", default_value_t = 10_000, value_parser = ms())]
    pub(crate) stability_ms: u64,
    /// How often nodes look for something to do if nothing tells them.
    #[arg(global = true, long, value_name = "MS", default_value_t = 5_000, value_parser = ms())]
    check_interval_ms: u64,
    /// Most shards on their way for balance at a time [default: one in 128, at least one].
    #[arg(global = true, long, value_name = "N")]
    batch_size: Option<NonZeroU32>,
    /// How uneven shards may be before a rebalance begins, as a part of what a node should hold.
    #[arg(global = true, long, value_name = "PART", default_value_t = 0.2)]
    imbalance_threshold: f64,
    /// Fewest nodes with which anything is placed or moved.
    #[arg(global = true, long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    min_quorum: NonZeroU32,
    /// End a rebalance where it would not have begun, instead of when shards are spread evenly.
    #[arg(global = true, long)]
    stop_at_threshold: bool,
    /// Fail calls to shards that are on their way, instead of holding them.
    #[arg(global = true, long)]
    strict: bool,
    /// How long a shard stays where it was moved to, unless it must go.
    #[arg(global = true, long, value_name = "MS", default_value_t = 60_000, value_parser = ms())]
    cooldown_ms: u64,
    /// Most shards that one node gives or gets at a time.
    #[arg(global = true, long, value_name = "N", default_value_t = in_flight().0)]
    in_flight_per_node: NonZeroU32,
    /// Most shards that are on their way at a time.
    #[arg(global = true, long, value_name = "N", default_value_t = in_flight().1)]
    in_flight: NonZeroU32,
    /// What becomes of a pinned shard whose node is gone: `spill` has another node serve it until
    /// its own is back, `wait` lets it wait.
    #[arg(global = true, long, value_name = "POLICY", default_value = "spill")]
    #[arg(value_parser = parse_pin_policy)]
    pin_policy: PinPolicy,
    /// How long a member outlives its last sign of life.
    #[arg(global = true, long, value_name = "MS", default_value_t = 10_000)]
    #[arg(value_parser = session_ms())]
    session_ms: u64,
}

impl BehaviourArguments {
    pub(crate) fn config(&self, sharding: Sharding) -> ClusterConfig {
        ClusterConfig {
            sharding,
            cluster_state_stability_duration_ms: self.stability_ms,
            shard_mapping_check_interval_ms: self.check_interval_ms.max(1),
            rebalance_shards_batch_size: self.batch_size.map(NonZeroU32::get),
            imbalance_threshold: self.imbalance_threshold,
            min_quorum: self.min_quorum.get() as usize,
            stop_at_threshold: self.stop_at_threshold,
            strict: self.strict,
            move_cooldown_ms: self.cooldown_ms,
            in_flight_per_node_max: self.in_flight_per_node.get(),
            in_flight_max: self.in_flight.get(),
            pin_policy: self.pin_policy,
            ..ClusterConfig::default()
        }
    }

    pub(crate) const fn session_ttl(&self) -> Duration {
        Duration::from_millis(self.session_ms)
    }
}

#[derive(Args, Debug)]
pub(crate) struct NodeArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    /// Where to receive calls of gates and other nodes; port 0 takes one that is free.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// How others reach that [default: where it listens].
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub(crate) address: Option<NodeAddress>,
    /// The node's share of the shards, relative to those of others.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub(crate) weight: NonZeroU32,
    /// When this node leads, even out what shards bear instead of how many there are.
    #[arg(long)]
    pub(crate) balance_load: bool,
    /// End when whoever started this is gone.
    #[arg(long, hide = true)]
    pub(crate) attached: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GateArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    /// Where to receive calls of clients over gRPC; port 0 takes one that is free.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// Where to receive calls of clients over HTTP.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) http: String,
    /// How others see the gate [default: where it listens].
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub(crate) address: Option<NodeAddress>,
    /// End when whoever started this is gone.
    #[arg(long, hide = true)]
    pub(crate) attached: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RouteArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    /// The object's id.
    #[arg(value_name = "OBJECT")]
    pub(crate) object: String,
}

#[derive(Args, Debug)]
pub(crate) struct ClusterArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Shows nodes, gates, the leader, and what is not where it should be.
    Status,
    /// Shows what would be moved now, and why. Nothing is.
    Plan,
    /// Moves a shard to a node.
    Move {
        /// The shard's number.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
        /// The node's address.
        #[arg(value_name = "NODE", value_parser = parse_address)]
        to: NodeAddress,
    },
    /// Keeps a shard on a node: it is not moved for balance.
    Pin {
        /// The shard's number.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
        /// The node's address [default: where the shard should be now].
        #[arg(value_name = "NODE", value_parser = parse_address)]
        to: Option<NodeAddress>,
    },
    /// Lets a pinned shard be moved again.
    Unpin {
        /// The shard's number.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
    },
    /// Takes everything away from a node, for as long as nobody takes that back.
    Drain {
        /// The node's address.
        #[arg(value_name = "NODE", value_parser = parse_address)]
        node: NodeAddress,
        /// Take it back: the node may have shards again.
        #[arg(long)]
        undo: bool,
        /// Return only when the node has nothing left.
        #[arg(long, conflicts_with = "undo")]
        wait: bool,
        /// How long to wait at most [default: until it has nothing left].
        #[arg(long, value_name = "MS", requires = "wait", value_parser = ms())]
        timeout_ms: Option<u64>,
    },
    /// Stops everything that is moved for balance. Shards of dead nodes still find new ones.
    Freeze {
        /// Let it go on.
        #[arg(long)]
        undo: bool,
    },
}

fn parse_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::parse(text).map_err(|error| error.to_string())
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    // What etcd stores has to begin with something, and the shards of a cluster with more.
    if text.chars().filter(|letter| *letter != '/').count() == 0 {
        return Err("a prefix is something like `/goverse`".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_count(text: &str) -> Result<ShardCount, String> {
    let count = text.parse().map_err(|_| format!("`{text}` is not a number of shards"))?;
    ShardCount::try_new(count).map_err(|error| error.to_string())
}

fn parse_hash(text: &str) -> Result<ShardHash, String> {
    let known = || ShardHash::ALL.map(ShardHash::name).join("` or `");
    ShardHash::from_name(text)
        .ok_or_else(|| format!("there is no hash `{text}`: say `{}`", known()))
}

fn parse_pin_policy(text: &str) -> Result<PinPolicy, String> {
    match text {
        "spill" => Ok(PinPolicy::SpillAndReturn),
        "wait" => Ok(PinPolicy::Wait),
        _ => Err(format!("there is no policy `{text}`: say `spill` or `wait`")),
    }
}

/// How many shards one node gives or gets at a time, and all of them, if nobody says.
fn in_flight() -> (NonZeroU32, NonZeroU32) {
    let ClusterConfig { in_flight_per_node_max, in_flight_max, .. } = ClusterConfig::default();
    let [per_node, all] = [in_flight_per_node_max, in_flight_max]
        .map(|count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
    (per_node, all)
}

/// What can be called: a cluster itself would take any name for an address.
fn parse_address(text: &str) -> Result<NodeAddress, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (is_bracketed || !host.contains(':'));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if !is_host || !is_port {
        return Err(format!("`{text}` is no HOST:PORT, like 10.0.0.1:7000 or [::1]:7000"));
    }
    NodeAddress::parse(text).map_err(|error| error.to_string())
}

fn parse_shard(text: &str) -> Result<ShardId, String> {
    let number = text.parse().map_err(|_| format!("`{text}` is not the number of a shard"))?;
    Ok(ShardId::from_raw(number))
}

fn ms() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=86_400_000)
}

/// Below a second, a node would hardly ever be a member.
fn session_ms() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1_000..=600_000)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct Told {
        #[command(flatten)]
        behaviour: BehaviourArguments,
    }

    fn config(arguments: &[&str]) -> ClusterConfig {
        let told = Told::try_parse_from(arguments).unwrap();
        told.behaviour.config(Sharding::default())
    }

    #[test]
    fn what_nobody_says_is_as_the_specification_says() {
        assert_eq!(config(&[]), ClusterConfig::default());
    }

    #[test]
    fn an_address_is_one_that_can_be_called() {
        for address in ["10.0.0.1:7000", "node-1.example:1", "[::1]:65535"] {
            assert!(parse_address(address).is_ok(), "{address}");
        }
        for wrong in ["", "bogus", "bogus:", ":80", "::1:80", "a:0", "a:65536", "http://a:1"] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn limits_of_movement_and_pins_can_be_told() {
        let flags = ["--in-flight-per-node", "4", "--in-flight", "8", "--pin-policy", "wait"];
        let told = config(&flags);
        assert_eq!((told.in_flight_per_node_max, told.in_flight_max), (4, 8));
        assert_eq!(told.pin_policy, PinPolicy::Wait);
    }
}
