//! The arguments of the cluster commands.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Subcommand};
use shardwright_cluster::ClusterName;
use shardwright_contracts::ShardId;
use shardwright_node::HostOptions;
use shardwright_placement::{
    ClusterConfig, NodeAddress, PinPolicy, ShardCount, ShardHash, Sharding,
};

use super::listen::ListenArguments;
use super::{example, with_codes};
use crate::exit;

/// Name, format and settings of a cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster options")]
pub(crate) struct ClusterChoice {
    /// Name of the cluster.
    #[arg(global = true, long = "cluster", value_name = "NAME", default_value = "main")]
    #[arg(value_parser = parse_name)]
    pub(crate) name: ClusterName,
    /// Use GoVerse's text format, with keys below PREFIX (like `/goverse`).
    #[arg(global = true, long, value_name = "PREFIX", value_parser = parse_prefix)]
    pub(crate) seed_format: Option<String>,
    /// Number of shards [default: the stored number; 8192 for a new cluster].
    #[arg(global = true, long, value_name = "N", value_parser = parse_count)]
    pub(crate) shards: Option<ShardCount>,
    /// Hash from object ids to shards: `fnv1a32` or `avalanche64` [default: the stored hash;
    /// fnv1a32 for a new cluster].
    #[arg(global = true, long, value_name = "HASH", value_parser = parse_hash)]
    pub(crate) hash: Option<ShardHash>,
    #[command(flatten)]
    pub(crate) behaviour: BehaviourArguments,
}

impl ClusterChoice {
    /// What identifies the cluster: its prefix or its name.
    pub(crate) fn title(&self) -> &str {
        self.seed_format.as_deref().unwrap_or(self.name.as_str())
    }

    /// The flag that names the cluster.
    pub(crate) fn flag(&self) -> String {
        let flag = if self.seed_format.is_some() { "--seed-format" } else { "--cluster" };
        format!("{flag} {}", self.title())
    }
}

/// Settings of placement and membership. All nodes of a cluster should use the same values.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Placement options (use the same values on all nodes)")]
pub(crate) struct BehaviourArguments {
    /// Place or balance shards only after the set of nodes is unchanged for MS milliseconds.
    #[arg(global = true, long, value_name = "MS", default_value_t = 10_000, value_parser = ms())]
    pub(crate) stability_ms: u64,
    /// Check for pending moves every MS milliseconds, and after every change.
    #[arg(global = true, long, value_name = "MS", default_value_t = 5_000, value_parser = ms())]
    check_interval_ms: u64,
    /// Move at most N shards for balance at a time [default: 1 in 128, at least 1].
    #[arg(global = true, long, value_name = "N")]
    batch_size: Option<NonZeroU32>,
    /// Rebalance when the fullest and the emptiest node differ by more than FRACTION of the
    /// mean.
    #[arg(global = true, long, value_name = "FRACTION", default_value_t = 0.2)]
    imbalance_threshold: f64,
    /// Place or move shards only while at least N nodes are members.
    #[arg(global = true, long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    min_quorum: NonZeroU32,
    /// Stop a rebalance at the imbalance threshold, instead of spreading shards evenly.
    #[arg(global = true, long)]
    stop_at_threshold: bool,
    /// Fail calls to a shard while it moves, instead of queueing them.
    #[arg(global = true, long)]
    strict: bool,
    /// After a move, wait MS milliseconds before moving the same shard for balance.
    #[arg(global = true, long, value_name = "MS", default_value_t = 60_000, value_parser = ms())]
    cooldown_ms: u64,
    /// Move at most N shards from or to one node at a time.
    #[arg(global = true, long, value_name = "N", default_value_t = in_flight().0)]
    in_flight_per_node: NonZeroU32,
    /// Move at most N shards of the cluster at a time.
    #[arg(global = true, long, value_name = "N", default_value_t = in_flight().1)]
    in_flight: NonZeroU32,
    /// Handle a pinned shard whose node is gone: `spill` moves it until the node returns, `wait`
    /// holds its calls.
    #[arg(global = true, long, value_name = "POLICY", default_value = "spill")]
    #[arg(value_parser = parse_pin_policy)]
    pin_policy: PinPolicy,
    /// Session TTL: remove a member that has not renewed its session for MS milliseconds.
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
    /// Listen for calls of gates and other nodes; port 0 picks a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// Address under which other processes reach the node [default: the listening address].
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub(crate) address: Option<NodeAddress>,
    /// Weight of the node: its share of the shards relative to other nodes.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub(crate) weight: NonZeroU32,
    /// Evict an object after MS milliseconds without a call; 0 keeps idle objects.
    #[arg(long, value_name = "MS", default_value_t = 600_000, value_parser = ms())]
    pub(crate) idle_ms: u64,
    /// Keep at most N objects in memory; evict the least recently used first.
    #[arg(long, value_name = "N", default_value_t = HostOptions::default().objects_max)]
    pub(crate) objects_max: u64,
    /// As leader, balance the load of shards instead of their number.
    #[arg(long)]
    pub(crate) balance_load: bool,
    #[command(flatten)]
    pub(crate) network: ListenArguments,
    /// Exit when the parent process exits.
    #[arg(long, hide = true)]
    pub(crate) attached: bool,
}

#[derive(Args, Debug)]
pub(crate) struct GateArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    /// Listen for client calls over gRPC; port 0 picks a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
    /// Listen for client calls over HTTP; port 0 picks a free port.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) http: String,
    /// Address under which `cluster status` lists the gate [default: the listening address].
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    pub(crate) address: Option<NodeAddress>,
    /// Accept HTTP requests to the host NAME, besides the address itself; repeatable.
    #[arg(long, value_name = "NAME", value_parser = parse_host)]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) network: ListenArguments,
    /// Exit when the parent process exits.
    #[arg(long, hide = true)]
    pub(crate) attached: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RouteArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    /// Id of the object.
    #[arg(value_name = "OBJECT", required_unless_present = "shard")]
    pub(crate) object: Option<String>,
    /// Show the route of shard N instead.
    #[arg(long, value_name = "N", value_parser = parse_shard, conflicts_with = "object")]
    pub(crate) shard: Option<ShardId>,
}

#[derive(Args, Debug)]
pub(crate) struct ClusterArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterChoice,
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

const DRAIN_EXAMPLE: &str = "shardwright cluster drain 10.0.0.2:7000 --wait --timeout-ms 60000";

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create a cluster with --shards and --hash, which never change. A node creates a missing
    /// cluster as well.
    #[command(after_help = example("shardwright cluster create --shards 1024 --hash avalanche64"))]
    Create,
    /// Delete a cluster that has no nodes and no gates. Stored data of its objects is kept. Repeat
    /// the command to complete an interrupted deletion.
    #[command(after_help = example("shardwright cluster delete --cluster old"))]
    Delete,
    #[command(flatten)]
    Operate(OperatorCommand),
}

/// The commands for an existing cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum OperatorCommand {
    /// Show the leader, nodes, gates, and shards that are not on their target node.
    #[command(after_help = example("shardwright cluster status"))]
    Status,
    /// Show which shards the leader would move now, and why, without moving them.
    #[command(after_help = example("shardwright cluster plan"))]
    Plan,
    /// Move a shard to a node.
    #[command(after_help = example("shardwright cluster move 17 10.0.0.2:7000"))]
    Move {
        /// Number of the shard.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
        /// Address of the node.
        #[arg(value_name = "NODE", value_parser = parse_address)]
        to: NodeAddress,
    },
    /// Pin a shard to a node, so that it is not moved for balance.
    #[command(after_help = example("shardwright cluster pin 17 10.0.0.2:7000"))]
    Pin {
        /// Number of the shard.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
        /// Address of the node [default: the shard's target node].
        #[arg(value_name = "NODE", value_parser = parse_address)]
        to: Option<NodeAddress>,
    },
    /// Remove the pin of a shard.
    #[command(after_help = example("shardwright cluster unpin 17"))]
    Unpin {
        /// Number of the shard.
        #[arg(value_name = "SHARD", value_parser = parse_shard)]
        shard: ShardId,
    },
    /// Move all shards off a node, and place none there until --undo.
    #[command(after_help = with_codes(DRAIN_EXAMPLE, exit::DRAIN_CODES))]
    Drain {
        /// Address of the node.
        #[arg(value_name = "NODE", value_parser = parse_address)]
        node: NodeAddress,
        /// End the drain: the node may get shards again.
        #[arg(long)]
        undo: bool,
        /// Wait until the node has no shards left.
        #[arg(long, conflicts_with = "undo")]
        wait: bool,
        /// Wait at most MS milliseconds [default: no limit].
        #[arg(long, value_name = "MS", requires = "wait", value_parser = ms())]
        timeout_ms: Option<u64>,
    },
    /// Stop moves for balance; shards of failed or drained nodes still move.
    #[command(after_help = example("shardwright cluster freeze"))]
    Freeze {
        /// Allow moves for balance again.
        #[arg(long)]
        undo: bool,
    },
}

fn parse_name(text: &str) -> Result<ClusterName, String> {
    ClusterName::parse(text).map_err(|error| error.to_string())
}

fn parse_prefix(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    // A prefix of slashes alone would put the cluster at the root of the store.
    if text.chars().filter(|letter| *letter != '/').count() == 0 {
        return Err("the prefix is empty; use one like `/goverse`".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_count(text: &str) -> Result<ShardCount, String> {
    let count = text.parse().map_err(|_| format!("`{text}` is not a number like 8192"))?;
    ShardCount::try_new(count).map_err(|error| error.to_string())
}

fn parse_hash(text: &str) -> Result<ShardHash, String> {
    let known = || ShardHash::ALL.map(ShardHash::name).join("` or `");
    ShardHash::from_name(text).ok_or_else(|| format!("unknown hash `{text}`; use `{}`", known()))
}

fn parse_pin_policy(text: &str) -> Result<PinPolicy, String> {
    match text {
        "spill" => Ok(PinPolicy::SpillAndReturn),
        "wait" => Ok(PinPolicy::Wait),
        _ => Err(format!("unknown policy `{text}`; use `spill` or `wait`")),
    }
}

/// The default limits of concurrent moves: per node, and in the cluster.
fn in_flight() -> (NonZeroU32, NonZeroU32) {
    let ClusterConfig { in_flight_per_node_max, in_flight_max, .. } = ClusterConfig::default();
    let [per_node, all] = [in_flight_per_node_max, in_flight_max]
        .map(|count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN));
    (per_node, all)
}

/// Parses the host of a URL, without a port. An IPv6 address is in brackets.
fn parse_host(text: &str) -> Result<String, String> {
    let is_bracketed = text.starts_with('[') && text.ends_with(']');
    if text.is_empty() || text.contains('/') || (text.contains(':') && !is_bracketed) {
        return Err(format!("`{text}` is not a host; give its name alone, like gate.example"));
    }
    Ok(text.to_owned())
}

/// Parses HOST:PORT. This is stricter than [`NodeAddress::parse`], which accepts any name.
fn parse_address(text: &str) -> Result<NodeAddress, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && (is_bracketed || !host.contains(':'));
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    if !is_host || !is_port {
        return Err(format!("`{text}` is not HOST:PORT, like 10.0.0.1:7000 or [::1]:7000"));
    }
    NodeAddress::parse(text).map_err(|error| error.to_string())
}

fn parse_shard(text: &str) -> Result<ShardId, String> {
    let number = text.parse().map_err(|_| format!("`{text}` is not a shard number like 17"))?;
    Ok(ShardId::from_raw(number))
}

fn ms() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(..=86_400_000)
}

/// With a TTL below one second, sessions expire before nodes can renew them.
fn session_ms() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1_000..=600_000)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    #[command(no_binary_name = true)]
    struct ParsedBehaviour {
        #[command(flatten)]
        behaviour: BehaviourArguments,
    }

    fn config(arguments: &[&str]) -> ClusterConfig {
        let parsed = ParsedBehaviour::try_parse_from(arguments).unwrap();
        parsed.behaviour.config(Sharding::default())
    }

    #[test]
    fn defaults_match_the_specification() {
        assert_eq!(config(&[]), ClusterConfig::default());
    }

    #[test]
    fn address_must_be_host_and_port() {
        for address in ["10.0.0.1:7000", "node-1.example:1", "[::1]:65535"] {
            assert!(parse_address(address).is_ok(), "{address}");
        }
        for wrong in ["", "bogus", "bogus:", ":80", "::1:80", "a:0", "a:65536", "http://a:1"] {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn move_limits_and_pin_policy_are_configurable() {
        let flags = ["--in-flight-per-node", "4", "--in-flight", "8", "--pin-policy", "wait"];
        let config = config(&flags);
        assert_eq!((config.in_flight_per_node_max, config.in_flight_max), (4, 8));
        assert_eq!(config.pin_policy, PinPolicy::Wait);
    }
}
