use std::collections::BTreeMap;
use std::num::NonZeroU32;

use shardwright_placement::NodeAddress;

use crate::clusters::truth::Truth;
use crate::oracle::Oracle;

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "rest",
    "once faults stop, every shard is held by the member that should have it, no two members \
     differ by more than one shard or have other than their shares by weight, and every call is \
     answered",
);

/// What is missing for a cluster of these nodes to be at rest, if anything is.
pub(in crate::clusters) fn missing(
    truth: &Truth,
    nodes: &BTreeMap<NodeAddress, NonZeroU32>,
) -> Option<String> {
    if !nodes.keys().eq(truth.members.keys()) {
        return Some(format!("members are {:?}", truth.members.keys()));
    }
    if let Some(node) = nodes.keys().find(|node| truth.is_draining(node)) {
        return Some(format!("{node} drains"));
    }
    let mut held: BTreeMap<&NodeAddress, u32> = nodes.keys().map(|node| (node, 0)).collect();
    for (shard, aim) in &truth.aims {
        let holder = truth.holder(*shard).map(|holder| &holder.address);
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
