//! Runs scripts: every line that is not indented is a command.
//!
//! | line | effect |
//! |---|---|
//! | `cluster shards=8 batch=2 …` | an empty cluster with that configuration |
//! | `join a b`, `leave a`, `restart a`, `drain a`, `weight a 3` | membership changes |
//! | `wait 500` | the clock advances by half a second |
//! | `plan` | shows the plan without executing it |
//! | `step` | the leader plans and writes the targets |
//! | `hand-over`, `hand-over without a` | nodes release and claim |
//! | `settle` | both, until nothing changes; counts the moves by reason |
//! | `nodes` | the number of targets per node |
//! | `shard 3` | the state of a shard |
//! | `move 3 a`, `pin 3`, `pin 3 a`, `unpin 3`, `freeze`, `thaw` | a request of an operator |
//! | `loads 5 1 1 40` | the shards' loads; the last number is for all others |
//! | `route user-1`, `route user-1 from a` | the route of a call from a gate, or from a node |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use shardwright_placement::ops;
use shardwright_placement::{
    ClusterConfig, Move, MoveReason, PinPolicy, Plan, RoutingTable, ShardCount, ShardHash,
};

use crate::support::{Cluster, node, shard};

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

pub(crate) fn check(name: &str) {
    let path = folder().join(format!("{name}.txt"));
    let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let output = run(&expected);
    if std::env::var_os("UPDATE_SCRIPTS").is_some() {
        std::fs::write(&path, output).unwrap();
    } else if output != expected {
        let differ = output.lines().zip(expected.lines()).position(|(one, other)| one != other);
        panic!("{name} differs from line {:?} on:\n{output}", differ.map(|at| at + 1));
    }
}

fn run(script: &str) -> String {
    let mut cluster = Cluster::new(1);
    let mut output = String::new();
    for line in script.lines().filter(|line| !line.starts_with("    ")) {
        writeln!(output, "{line}").unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with('#') || words.is_empty() {
            continue;
        }
        for answer in execute(&mut cluster, &words) {
            writeln!(output, "    {answer}").unwrap();
        }
    }
    output
}

fn execute(cluster: &mut Cluster, words: &[&str]) -> Vec<String> {
    match words {
        ["cluster", settings @ ..] => *cluster = Cluster::with(config(settings)),
        ["join", names @ ..] => names.iter().for_each(|name| cluster.join(name)),
        ["leave", name] => cluster.leave(name),
        ["restart", name] => cluster.restart(name),
        ["drain", name] => cluster.drain(name),
        ["weight", name, weight] => cluster.weigh(name, weight.parse().unwrap()),
        ["wait", millis] => cluster.pass(millis.parse().unwrap()),
        ["plan"] => return shown(&cluster.plan()),
        ["step"] => return shown(&cluster.step()),
        ["hand-over"] => return vec![format!("{} shards claimed", cluster.hand_over())],
        ["hand-over", "without", name] => {
            return vec![format!("{} shards claimed", cluster.hand_over_without(name))];
        }
        ["settle"] => return summary(&cluster.settle()),
        ["nodes"] => {
            let counts = cluster.counts();
            return counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        }
        ["shard", number] => return vec![state(cluster, number.parse().unwrap())],
        ["loads", loads @ ..] => {
            let mut loads: Vec<u64> = loads.iter().map(|load| load.parse().unwrap()).collect();
            let last = *loads.last().unwrap();
            loads.resize(cluster.map.num_shards().get() as usize, last);
            cluster.loads = Some(loads);
        }
        ["route", id] => return vec![route(cluster, id, None)],
        ["route", id, "from", name] => return vec![route(cluster, id, Some(name))],
        _ => return vec![operate(cluster, words)],
    }
    Vec::new()
}

fn operate(cluster: &mut Cluster, words: &[&str]) -> String {
    let (map, members, now) = (&cluster.map, &cluster.members, cluster.now);
    let number = |word: &str| shard(word.parse().unwrap());
    let update = match words {
        ["move", at, to] => {
            ops::reassign(map, members, number(at), &node(to), now).map_err(|why| why.to_string())
        }
        ["pin", at] => ops::pin(map, members, number(at), None, now).map_err(|why| why.to_string()),
        ["pin", at, to] => {
            ops::pin(map, members, number(at), Some(&node(to)), now).map_err(|why| why.to_string())
        }
        ["unpin", at] => ops::unpin(map, number(at)).map_err(|why| why.to_string()),
        ["freeze"] => ops::freeze(map, true).map_err(|why| why.to_string()),
        ["thaw"] => ops::freeze(map, false).map_err(|why| why.to_string()),
        _ => panic!("unknown command: {words:?}"),
    };
    match update {
        Ok(update) => {
            cluster.map.apply(&update).unwrap();
            format!("done, version {}", update.header.version)
        }
        Err(why) => format!("refused: {why}"),
    }
}

fn config(settings: &[&str]) -> ClusterConfig {
    let mut config = ClusterConfig::default();
    for setting in settings {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        let number = || value.parse().unwrap();
        match name {
            "shards" => {
                let count = value.parse().unwrap();
                config.sharding.num_shards = ShardCount::try_new(count).unwrap();
            }
            "hash" => config.sharding.hash = ShardHash::from_name(value).unwrap(),
            "batch" => config.rebalance_shards_batch_size = Some(value.parse().unwrap()),
            "threshold" => config.imbalance_threshold = value.parse().unwrap(),
            "guard" => config.cluster_state_stability_duration_ms = number(),
            "cooldown" => config.move_cooldown_ms = number(),
            "stuck" => config.stuck_after_ms = number(),
            "quorum" => config.min_quorum = value.parse().unwrap(),
            "per-node" => config.in_flight_per_node_max = value.parse().unwrap(),
            "in-all" => config.in_flight_max = value.parse().unwrap(),
            "stop-at-threshold" => config.stop_at_threshold = true,
            "strict" => config.strict = true,
            "pins-wait" => config.pin_policy = PinPolicy::Wait,
            _ => panic!("unknown setting: {name}"),
        }
    }
    config
}

fn shown(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.moves.iter().map(ToString::to_string).collect();
    lines.extend(plan.notes.iter().map(ToString::to_string));
    if lines.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    lines
}

fn summary(moves: &[Move]) -> Vec<String> {
    let mut counts = BTreeMap::new();
    for one in moves {
        let what = match one.reason {
            MoveReason::FirstPlacement => "placed",
            MoveReason::NodeGone => "left a dead node",
            MoveReason::NodeDraining => "left a draining node",
            MoveReason::NotClaimed { .. } => "left a node that does not claim",
            MoveReason::StillServed => "stayed with its holder",
            MoveReason::PinnedHome => "returned home",
            MoveReason::Spread { .. } => "moved to spread evenly",
            MoveReason::Load { .. } => "moved for its load",
        };
        *counts.entry(what).or_insert(0) += 1;
    }
    if counts.is_empty() {
        return vec!["nothing moved".to_owned()];
    }
    counts.into_iter().map(|(what, count)| format!("{count} {what}")).collect()
}

fn state(cluster: &Cluster, number: u64) -> String {
    let info = cluster.map.info(shard(number)).unwrap();
    let none = || "none".to_owned();
    let target = info.target.map_or_else(none, ToString::to_string);
    let current = info.current.map_or_else(none, |one| one.address.to_string());
    let fence = info.fence.map_or_else(none, |fence| fence.to_string());
    let flags: Vec<_> = info.flags.iter().map(ToString::to_string).collect();
    let flags = if flags.is_empty() { String::new() } else { format!(", {}", flags.join(", ")) };
    format!("target {target}, holder {current}, fence {fence}{flags}")
}

fn route(cluster: &Cluster, id: &str, from: Option<&str>) -> String {
    let own = from.map(|name| cluster.members.get(name).unwrap().holder.clone());
    let table = RoutingTable::new(&cluster.map, &cluster.members, own.as_ref(), &cluster.config);
    match table.explain(id) {
        Ok(explanation) => explanation.to_string(),
        Err(error) => format!("refused: {error}"),
    }
}
