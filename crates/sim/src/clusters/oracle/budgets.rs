use std::collections::BTreeMap;

use shardwright_placement::{ClusterConfig, NodeAddress};

use super::ensure;
use crate::clusters::truth::{Aim, Change, LAG_US, Truth};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "budgets",
    "a leader sends no shard on its way beyond the limits in all and per node, and none that could \
     stay beyond the batch",
);

/// What a leader wrote, and when it was stored.
pub(in crate::clusters) struct Planned<'a> {
    pub(in crate::clusters) config: &'a ClusterConfig,
    pub(in crate::clusters) changes: &'a [Change],
    now_us: u64,
}

impl<'a> Planned<'a> {
    pub(in crate::clusters) const fn new(
        config: &'a ClusterConfig,
        changes: &'a [Change],
        now_us: u64,
    ) -> Self {
        Self { config, changes, now_us }
    }

    /// A time of which every leader has heard that can write now.
    pub(super) fn known_us(&self) -> u64 {
        self.now_us.saturating_sub(LAG_US)
    }

    /// How long ago a shard got its target. Whatever calendars say, no leader can have known of it
    /// for longer.
    pub(in crate::clusters) const fn age_ms(&self, aim: &Aim) -> u64 {
        self.now_us.saturating_sub(aim.at_us) / 1_000
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
fn in_flight(truth: &Truth, plan: &Planned<'_>) -> InFlight {
    let mut found = InFlight::default();
    for (shard, aim) in &truth.aims {
        let Some(target) = aim.target.node.as_ref().filter(|_| counts(truth, aim, plan)) else {
            continue;
        };
        found.in_all += 1;
        let giver = truth.holder_since(*shard, plan.known_us());
        for node in giver.into_iter().chain([target]) {
            *found.per_node.entry(node.clone()).or_default() += 1;
        }
    }
    found
}

fn counts(truth: &Truth, aim: &Aim, plan: &Planned<'_>) -> bool {
    let is_stuck = plan.age_ms(aim) >= plan.config.stuck_after_ms;
    let is_just_written = aim.at_us == plan.now_us;
    let target = aim.target.node.as_ref();
    let is_open = target.and_then(|node| truth.open_since(node)).is_some_and(|since_us| {
        since_us <= aim.at_us && (since_us <= plan.known_us() || is_just_written)
    });
    aim.is_moved() && !aim.arrived && !is_stuck && is_open
}

/// How many shards a leader moved, and how many of them could have stayed.
fn moved(truth: &Truth, plan: &Planned<'_>) -> (u32, u32) {
    let (mut moves, mut voluntary) = (0, 0);
    for change in plan.changes {
        let aim = truth.aims.get(&change.shard);
        let (Some(from), Some(to)) =
            (aim.and_then(|aim| aim.target.node.as_ref()), change.after.node.as_ref())
        else {
            continue;
        };
        // A shard that is left where it is served is not sent anywhere.
        if from == to || truth.seems_served(change.shard, to, plan.known_us()) {
            continue;
        }
        moves += 1;
        // Of a claim that is newer a leader may not have heard, and take its target for stuck.
        let holds = truth.holder_since(change.shard, plan.known_us()) == Some(from);
        let is_open = truth.open_since(from).is_some_and(|since| since <= plan.known_us());
        voluntary += u32::from(holds && is_open);
    }
    (moves, voluntary)
}

/// Judges what a leader wrote by what was before, and tells whether it moved anything.
pub(in crate::clusters) fn judge(before: &Truth, plan: &Planned<'_>) -> Result<bool, Finding> {
    let (moves, voluntary) = moved(before, plan);
    let under_way = in_flight(before, plan).in_all;
    let batch = plan.config.batch_size();
    ensure(ORACLE, voluntary == 0 || under_way + voluntary <= batch, || {
        format!("{voluntary} shards were moved that could stay, beside {under_way} of {batch}")
    })?;
    Ok(moves > 0)
}

/// Judges what is on its way after a leader has moved something.
pub(in crate::clusters) fn judge_after(after: &Truth, plan: &Planned<'_>) -> Result<(), Finding> {
    let InFlight { in_all, per_node } = in_flight(after, plan);
    let limit = plan.config.in_flight_max;
    ensure(ORACLE, in_all <= limit, || format!("{in_all} shards are on their way, of {limit}"))?;
    let limit = plan.config.in_flight_per_node_max;
    let sent = plan.changes.iter().filter(|change| {
        let aim = after.aims.get(&change.shard);
        aim.is_some_and(|aim| aim.at_us == plan.now_us && !aim.arrived)
    });
    for node in sent.filter_map(|change| change.after.node.as_ref()) {
        let count = per_node.get(node).copied().unwrap_or_default();
        ensure(ORACLE, count <= limit, || {
            format!("{count} shards are on their way from or to {node}, of {limit}")
        })?;
    }
    Ok(())
}
