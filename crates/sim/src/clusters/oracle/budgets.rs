use std::collections::BTreeMap;

use shardwright_contracts::ShardId;
use shardwright_placement::{ClusterConfig, NodeAddress};

use super::ensure;
use crate::clusters::truth::{Aim, Change, Truth};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "budgets",
    "a leader sends no shard on its way beyond the limits in all and per node, and none that could \
     stay beyond the batch",
);

/// What a leader may be wrong about: how far clocks differ, and since when it may not have heard.
#[derive(Clone, Copy, Debug)]
pub(in crate::clusters) struct Doubt {
    pub(in crate::clusters) now_us: u64,
    pub(in crate::clusters) skew_ms: u64,
    pub(in crate::clusters) lag_us: u64,
}

impl Doubt {
    /// Whether every leader must know by now what has been so since some time.
    fn is_known(self, since_us: u64) -> bool {
        since_us + self.lag_us <= self.now_us
    }
}

/// Shards that are surely on their way.
#[derive(Default)]
struct InFlight {
    in_all: u32,
    per_node: BTreeMap<NodeAddress, u32>,
}

/// Counts what every leader must count: what was moved to a member that can have it, has not
/// arrived since, and is not stuck.
fn in_flight(truth: &Truth, config: &ClusterConfig, doubt: Doubt) -> InFlight {
    let mut found = InFlight::default();
    for (shard, aim) in &truth.aims {
        let Some(target) = aim.target.node.as_ref().filter(|_| counts(truth, aim, config, doubt))
        else {
            continue;
        };
        found.in_all += 1;
        let giver = truth.holder(*shard).map(|holder| &holder.address);
        for node in giver.into_iter().chain([target]) {
            *found.per_node.entry(node.clone()).or_default() += 1;
        }
    }
    found
}

fn counts(truth: &Truth, aim: &Aim, config: &ClusterConfig, doubt: Doubt) -> bool {
    let stuck_ms = config.stuck_after_ms.saturating_sub(doubt.skew_ms);
    let is_stuck = doubt.now_us.saturating_sub(aim.at_us) / 1_000 >= stuck_ms;
    let target = aim.target.node.as_ref();
    let is_open = target.and_then(|node| truth.open_since(node)).is_some_and(|since_us| {
        since_us <= aim.at_us && (doubt.is_known(since_us) || aim.at_us == doubt.now_us)
    });
    aim.is_moved() && !aim.arrived && !is_stuck && is_open
}

/// What a leader moved, and what of that could have stayed.
fn moved<'c>(
    truth: &Truth,
    changes: &'c [Change],
    doubt: Doubt,
) -> (Vec<(ShardId, &'c NodeAddress)>, u32) {
    let (mut moves, mut voluntary) = (Vec::new(), 0);
    for change in changes {
        let aim = truth.aims.get(&change.shard);
        let (Some(from), Some(to)) =
            (aim.and_then(|aim| aim.target.node.as_ref()), change.after.node.as_ref())
        else {
            continue;
        };
        let holder = truth.holder(change.shard).map(|holder| &holder.address);
        if from == to || holder == Some(to) {
            continue;
        }
        moves.push((change.shard, to));
        let is_known = truth.open_since(from).is_some_and(|since_us| doubt.is_known(since_us));
        voluntary += u32::from(holder == Some(from) && is_known);
    }
    (moves, voluntary)
}

/// Judges what a leader wrote, before and after it.
pub(in crate::clusters) fn judge(
    before: &Truth,
    changes: &[Change],
    config: &ClusterConfig,
    doubt: Doubt,
) -> Result<u32, Finding> {
    let (moves, voluntary) = moved(before, changes, doubt);
    let under_way = in_flight(before, config, doubt).in_all;
    let batch = config.batch_size();
    ensure(ORACLE, voluntary == 0 || under_way + voluntary <= batch, || {
        format!("{voluntary} shards were moved that could stay, beside {under_way} of {batch}")
    })?;
    Ok(u32::try_from(moves.len()).unwrap_or(u32::MAX))
}

/// Judges what is on its way after a leader has written.
pub(in crate::clusters) fn judge_after(
    after: &Truth,
    changes: &[Change],
    config: &ClusterConfig,
    doubt: Doubt,
) -> Result<(), Finding> {
    let InFlight { in_all, per_node } = in_flight(after, config, doubt);
    let limit = config.in_flight_max;
    ensure(ORACLE, in_all <= limit, || format!("{in_all} shards are on their way, of {limit}"))?;
    let limit = config.in_flight_per_node_max;
    for node in changes.iter().filter_map(|change| change.after.node.as_ref()) {
        let count = per_node.get(node).copied().unwrap_or_default();
        ensure(ORACLE, count <= limit, || {
            format!("{count} shards are on their way from or to {node}, of {limit}")
        })?;
    }
    Ok(())
}
