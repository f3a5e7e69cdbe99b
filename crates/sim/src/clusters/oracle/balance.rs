//! Oracles of moves and balance.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use shardwright_placement::{ClusterConfig, NodeAddress};

use super::ensure;
use crate::clusters::stored_state::{Assignment, Change, LAG_US, StoredState};
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const BUDGETS: &Oracle = &Oracle::of_the_world(
    "budgets",
    "a leader keeps shards in flight within the total and per-node limits, and moves that are not \
     necessary within the batch size",
);

pub(in crate::clusters) const ROUND_TRIPS: &Oracle = &Oracle::of_the_world(
    "no round trips",
    "within the cooldown a leader moves no shard back to its previous node, if it can stay",
);

pub(in crate::clusters) const CONVERGENCE: &Oracle = &Oracle::of_the_world(
    "convergence",
    "after faults stop, every shard is held by its target, shards are balanced by weight, and \
     every call is answered",
);

/// Targets that a leader wrote, and when.
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

    /// Every leader that can write now knows the state of this time.
    pub(super) fn known_us(&self) -> u64 {
        self.now_us.saturating_sub(LAG_US)
    }

    /// Time since a shard got its target. No leader can have known the target for longer, whatever
    /// its wall clock shows.
    pub(in crate::clusters) const fn age_ms(&self, assignment: &Assignment) -> u64 {
        self.now_us.saturating_sub(assignment.at_us) / 1_000
    }
}

/// Number of shards that every leader counts as in flight.
#[derive(Default)]
struct InFlight {
    in_all: u32,
    per_node: BTreeMap<NodeAddress, u32>,
}

/// Counts the shards that were moved to an open member, are not claimed by it yet, and are not
/// stuck.
fn in_flight(stored: &StoredState, plan: &Planned<'_>) -> InFlight {
    let mut found = InFlight::default();
    for (shard, assignment) in &stored.assignments {
        let Some(target) =
            assignment.target.node.as_ref().filter(|_| counts(stored, assignment, plan))
        else {
            continue;
        };
        found.in_all += 1;
        let source = stored.holder_since(*shard, plan.known_us());
        for node in source.into_iter().chain([target]) {
            *found.per_node.entry(node.clone()).or_default() += 1;
        }
    }
    found
}

fn counts(stored: &StoredState, assignment: &Assignment, plan: &Planned<'_>) -> bool {
    let is_stuck = plan.age_ms(assignment) >= plan.config.stuck_after_ms;
    let is_just_written = assignment.at_us == plan.now_us;
    let target = assignment.target.node.as_ref();
    let is_open = target.and_then(|node| stored.open_since(node)).is_some_and(|since_us| {
        since_us <= assignment.at_us && (since_us <= plan.known_us() || is_just_written)
    });
    assignment.is_moved() && !assignment.arrived && !is_stuck && is_open
}

/// Number of shards that a leader moved, and how many of them could have stayed.
fn moved(stored: &StoredState, plan: &Planned<'_>) -> (u32, u32) {
    let (mut moves, mut voluntary) = (0, 0);
    for change in plan.changes {
        let assignment = stored.assignments.get(&change.shard);
        let (Some(from), Some(to)) = (
            assignment.and_then(|assignment| assignment.target.node.as_ref()),
            change.after.node.as_ref(),
        ) else {
            continue;
        };
        // A target that is the current holder moves nothing.
        if from == to || stored.seems_served(change.shard, to, plan.known_us()) {
            continue;
        }
        moves += 1;
        // A leader may not know a newer claim, and consider the target stuck.
        let holds = stored.holder_since(change.shard, plan.known_us()) == Some(from);
        let is_open = stored.open_since(from).is_some_and(|since| since <= plan.known_us());
        voluntary += u32::from(holds && is_open);
    }
    (moves, voluntary)
}

/// Judges moves against the state before them. Returns whether there are any.
pub(in crate::clusters) fn judge_moves(
    before: &StoredState,
    plan: &Planned<'_>,
) -> Result<bool, Finding> {
    let (moves, voluntary) = moved(before, plan);
    let moving = in_flight(before, plan).in_all;
    let batch = plan.config.batch_size();
    ensure(BUDGETS, voluntary == 0 || moving + voluntary <= batch, || {
        format!("moved {voluntary} shards that could stay, {moving} in flight, batch size {batch}")
    })?;
    Ok(moves > 0)
}

/// Judges the shards in flight after a leader has moved some.
pub(in crate::clusters) fn judge_in_flight(
    after: &StoredState,
    plan: &Planned<'_>,
) -> Result<(), Finding> {
    let InFlight { in_all, per_node } = in_flight(after, plan);
    let limit = plan.config.in_flight_max;
    ensure(BUDGETS, in_all <= limit, || {
        format!("{in_all} shards are in flight, the limit is {limit}")
    })?;
    let limit = plan.config.in_flight_per_node_max;
    let sent = plan.changes.iter().filter(|change| {
        let assignment = after.assignments.get(&change.shard);
        assignment.is_some_and(|assignment| assignment.at_us == plan.now_us && !assignment.arrived)
    });
    for node in sent.filter_map(|change| change.after.node.as_ref()) {
        let count = per_node.get(node).copied().unwrap_or_default();
        ensure(BUDGETS, count <= limit, || {
            format!("{count} shards are in flight at {node}, the limit is {limit}")
        })?;
    }
    Ok(())
}

/// Judges moves against the moves before them.
pub(in crate::clusters) fn judge_round_trips(
    stored: &StoredState,
    plan: &Planned<'_>,
) -> Result<(), Finding> {
    for change in plan.changes {
        let Some(assignment) = stored.assignments.get(&change.shard) else { continue };
        let (Some(current), Some(previous)) = (&assignment.target.node, &change.after.node) else {
            continue;
        };
        if current == previous || assignment.before.as_ref() != Some(previous) {
            continue;
        }
        let holder = stored.holder(change.shard).map(|holder| &holder.address);
        // The leader may not know recent changes of members. It may know a target before it knows
        // an earlier change elsewhere.
        let surely_known_us = assignment.at_us.min(plan.known_us());
        let passed_ms = plan.age_ms(assignment);
        // A leader that does not know the claim considers the target stuck after a while.
        let is_claim_known = stored.holder_since(change.shard, plan.known_us()) == holder;
        let seems_stuck = !is_claim_known && passed_ms >= plan.config.stuck_after_ms;
        let can_stay = holder == Some(current)
            && !seems_stuck
            && stored.open_since(current).is_some_and(|since_us| since_us <= surely_known_us);
        // Leaders measure in whole milliseconds.
        ensure(ROUND_TRIPS, !can_stay || passed_ms + 1 >= plan.config.move_cooldown_ms, || {
            let shard = change.shard;
            format!(
                "shard {shard} moved from {previous} to {current} and back after {passed_ms} ms"
            )
        })?;
    }
    Ok(())
}

/// Why a cluster of these nodes has not converged, if it has not.
pub(in crate::clusters) fn missing_for_convergence(
    stored: &StoredState,
    nodes: &BTreeMap<NodeAddress, NonZeroU32>,
) -> Option<String> {
    if !nodes.keys().eq(stored.members.keys()) {
        return Some(format!("the members are {:?}", stored.members.keys()));
    }
    if let Some(node) = nodes.keys().find(|node| stored.is_draining(node)) {
        return Some(format!("{node} is draining"));
    }
    let mut held: BTreeMap<&NodeAddress, u32> = nodes.keys().map(|node| (node, 0)).collect();
    for (shard, assignment) in &stored.assignments {
        let holder = stored.holder(*shard).map(|holder| &holder.address);
        if holder.is_none() || holder != assignment.target.node.as_ref() {
            let target = &assignment.target.node;
            return Some(format!("shard {shard} is held by {holder:?}, its target is {target:?}"));
        }
        if let Some(count) = holder.and_then(|holder| held.get_mut(holder)) {
            *count += 1;
        }
    }
    let shares: Vec<(u32, NonZeroU32)> =
        held.values().copied().zip(nodes.values().copied()).collect();
    (!is_even(&shares)).then(|| format!("unbalanced: shards {held:?}, weights {nodes:?}"))
}

/// Whether the shards are balanced by weight: each node has its rounded share, or the spread is
/// less than two shards of a node of mean weight.
fn is_even(shares: &[(u32, NonZeroU32)]) -> bool {
    let weight = |one: &(u32, NonZeroU32)| f64::from(one.1.get());
    let count: f64 = shares.iter().map(|one| f64::from(one.0)).sum();
    let weights: f64 = shares.iter().map(weight).sum();
    let is_fair =
        |one: &(u32, NonZeroU32)| (f64::from(one.0) - count * weight(one) / weights).abs() < 1.0;
    let mean_weight = weights / shares.len() as f64;
    let levels = || shares.iter().map(|one| f64::from(one.0) * mean_weight / weight(one));
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
    fn heavier_nodes_hold_more_shards() {
        assert!(even(&[(10, 1), (30, 3)]));
        assert!(even(&[(11, 1), (30, 3)]), "a share is rounded");
        assert!(!even(&[(20, 1), (20, 3)]));
    }
}
