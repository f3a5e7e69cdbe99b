//! Where shards go, and that they come to rest.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use shardwright_placement::{ClusterConfig, NodeAddress};

use super::ensure;
use crate::clusters::stored_state::{Aim, Change, LAG_US, StoredState};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const BUDGETS: &Oracle = &Oracle::of_the_world(
    "budgets",
    "a leader sends no shard on its way beyond the limits in all and per node, and none that could \
     stay beyond the batch",
);

pub(in crate::clusters) const ROUND_TRIPS: &Oracle = &Oracle::of_the_world(
    "no round trips",
    "within the cooldown a leader sends no shard back to where it came from, unless it must go",
);

pub(in crate::clusters) const REST: &Oracle = &Oracle::of_the_world(
    "rest",
    "once faults stop, every shard is held by the member that should have it, no two members \
     differ by more than one shard or have other than their shares by weight, and every call is \
     answered",
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
fn in_flight(stored: &StoredState, plan: &Planned<'_>) -> InFlight {
    let mut found = InFlight::default();
    for (shard, aim) in &stored.aims {
        let Some(target) = aim.target.node.as_ref().filter(|_| counts(stored, aim, plan)) else {
            continue;
        };
        found.in_all += 1;
        let giver = stored.holder_since(*shard, plan.known_us());
        for node in giver.into_iter().chain([target]) {
            *found.per_node.entry(node.clone()).or_default() += 1;
        }
    }
    found
}

fn counts(stored: &StoredState, aim: &Aim, plan: &Planned<'_>) -> bool {
    let is_stuck = plan.age_ms(aim) >= plan.config.stuck_after_ms;
    let is_just_written = aim.at_us == plan.now_us;
    let target = aim.target.node.as_ref();
    let is_open = target.and_then(|node| stored.open_since(node)).is_some_and(|since_us| {
        since_us <= aim.at_us && (since_us <= plan.known_us() || is_just_written)
    });
    aim.is_moved() && !aim.arrived && !is_stuck && is_open
}

/// How many shards a leader moved, and how many of them could have stayed.
fn moved(stored: &StoredState, plan: &Planned<'_>) -> (u32, u32) {
    let (mut moves, mut voluntary) = (0, 0);
    for change in plan.changes {
        let aim = stored.aims.get(&change.shard);
        let (Some(from), Some(to)) =
            (aim.and_then(|aim| aim.target.node.as_ref()), change.after.node.as_ref())
        else {
            continue;
        };
        // A shard that is left where it is served is not sent anywhere.
        if from == to || stored.seems_served(change.shard, to, plan.known_us()) {
            continue;
        }
        moves += 1;
        // Of a claim that is newer a leader may not have heard, and take its target for stuck.
        let holds = stored.holder_since(change.shard, plan.known_us()) == Some(from);
        let is_open = stored.open_since(from).is_some_and(|since| since <= plan.known_us());
        voluntary += u32::from(holds && is_open);
    }
    (moves, voluntary)
}

/// Judges what a leader wrote by what was before, and tells whether it moved anything.
pub(in crate::clusters) fn judge_moves(
    before: &StoredState,
    plan: &Planned<'_>,
) -> Result<bool, Finding> {
    let (moves, voluntary) = moved(before, plan);
    let under_way = in_flight(before, plan).in_all;
    let batch = plan.config.batch_size();
    ensure(BUDGETS, voluntary == 0 || under_way + voluntary <= batch, || {
        format!("{voluntary} shards were moved that could stay, beside {under_way} of {batch}")
    })?;
    Ok(moves > 0)
}

/// Judges what is on its way after a leader has moved something.
pub(in crate::clusters) fn judge_in_flight(
    after: &StoredState,
    plan: &Planned<'_>,
) -> Result<(), Finding> {
    let InFlight { in_all, per_node } = in_flight(after, plan);
    let limit = plan.config.in_flight_max;
    ensure(BUDGETS, in_all <= limit, || format!("{in_all} shards are on their way, of {limit}"))?;
    let limit = plan.config.in_flight_per_node_max;
    let sent = plan.changes.iter().filter(|change| {
        let aim = after.aims.get(&change.shard);
        aim.is_some_and(|aim| aim.at_us == plan.now_us && !aim.arrived)
    });
    for node in sent.filter_map(|change| change.after.node.as_ref()) {
        let count = per_node.get(node).copied().unwrap_or_default();
        ensure(BUDGETS, count <= limit, || {
            format!("{count} shards are on their way from or to {node}, of {limit}")
        })?;
    }
    Ok(())
}

/// Judges what a leader wrote by what was before.
pub(in crate::clusters) fn judge_round_trips(
    stored: &StoredState,
    plan: &Planned<'_>,
) -> Result<(), Finding> {
    for change in plan.changes {
        let Some(aim) = stored.aims.get(&change.shard) else { continue };
        let (Some(there), Some(back)) = (&aim.target.node, &change.after.node) else { continue };
        if there == back || aim.before.as_ref() != Some(back) {
            continue;
        }
        let holder = stored.holder(change.shard).map(|holder| &holder.address);
        // Whoever came, left or was drained since may be seen otherwise by the leader, and it may
        // have heard of a target before it hears of what came earlier elsewhere.
        let surely_known_us = aim.at_us.min(plan.known_us());
        let can_stay = holder == Some(there)
            && stored.open_since(there).is_some_and(|since_us| since_us <= surely_known_us);
        let passed_ms = plan.age_ms(aim);
        // Leaders go by whole milliseconds.
        ensure(ROUND_TRIPS, !can_stay || passed_ms + 1 >= plan.config.move_cooldown_ms, || {
            let shard = change.shard;
            format!("shard {shard} went from {back} to {there} and back after {passed_ms} ms")
        })?;
    }
    Ok(())
}

/// What is missing for a cluster of these nodes to be at rest, if anything is.
pub(in crate::clusters) fn missing_for_rest(
    stored: &StoredState,
    nodes: &BTreeMap<NodeAddress, NonZeroU32>,
) -> Option<String> {
    if !nodes.keys().eq(stored.members.keys()) {
        return Some(format!("members are {:?}", stored.members.keys()));
    }
    if let Some(node) = nodes.keys().find(|node| stored.is_draining(node)) {
        return Some(format!("{node} drains"));
    }
    let mut held: BTreeMap<&NodeAddress, u32> = nodes.keys().map(|node| (node, 0)).collect();
    for (shard, aim) in &stored.aims {
        let holder = stored.holder(*shard).map(|holder| &holder.address);
        if holder.is_none() || holder != aim.target.node.as_ref() {
            let target = &aim.target.node;
            return Some(format!("shard {shard} is at {holder:?} and should be at {target:?}"));
        }
        if let Some(count) = holder.and_then(|holder| held.get_mut(holder)) {
            *count += 1;
        }
    }
    let shares: Vec<(u32, NonZeroU32)> =
        held.values().copied().zip(nodes.values().copied()).collect();
    (!is_even(&shares)).then(|| format!("shards are {held:?} by {nodes:?}"))
}

/// Whether nodes have so many shards by their weights that nothing has to move: each has its share,
/// rounded, or they differ by less than two shards of a node of middling weight.
fn is_even(shares: &[(u32, NonZeroU32)]) -> bool {
    let weight = |one: &(u32, NonZeroU32)| f64::from(one.1.get());
    let count: f64 = shares.iter().map(|one| f64::from(one.0)).sum();
    let weights: f64 = shares.iter().map(weight).sum();
    let is_fair =
        |one: &(u32, NonZeroU32)| (f64::from(one.0) - count * weight(one) / weights).abs() < 1.0;
    let middling = weights / shares.len() as f64;
    let levels = || shares.iter().map(|one| f64::from(one.0) * middling / weight(one));
    let spread = levels().fold(0.0, f64::max) - levels().fold(f64::INFINITY, f64::min);
    shares.iter().all(is_fair) || spread < 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(shares: &[(u32, u32)]) -> bool {
        let weighed = |(held, weight): &(u32, u32)| (*held, NonZeroU32::new(*weight).unwrap());
        is_even(&shares.iter().map(weighed).collect::<Vec<_>>())
    }

    #[test]
    fn equal_nodes_differ_by_one_shard_at_most() {
        assert!(even(&[(3, 1), (4, 1), (4, 1)]));
        assert!(!even(&[(3, 1), (5, 1), (4, 1)]));
    }

    #[test]
    fn heavier_nodes_have_more() {
        assert!(even(&[(10, 1), (30, 3)]));
        assert!(even(&[(11, 1), (30, 3)]), "a share is rounded");
        assert!(!even(&[(20, 1), (20, 3)]));
    }
}
