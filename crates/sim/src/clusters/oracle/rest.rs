use std::collections::BTreeMap;

use shardwright_placement::NodeAddress;

use crate::clusters::truth::Truth;
use crate::oracle::Oracle;

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "rest",
    "once faults stop, every shard is held by the member that should have it, no two members \
     differ by more than one shard, and every call is answered",
);

/// What is missing for a cluster of these nodes to be at rest, if anything is.
pub(in crate::clusters) fn missing(truth: &Truth, nodes: &[NodeAddress]) -> Option<String> {
    let members: Vec<&NodeAddress> = truth.members.keys().collect();
    if !nodes.iter().eq(members.iter().copied()) {
        return Some(format!("members are {members:?}"));
    }
    if let Some(node) = nodes.iter().find(|node| truth.is_draining(node)) {
        return Some(format!("{node} drains"));
    }
    let mut held: BTreeMap<&NodeAddress, u32> = nodes.iter().map(|node| (node, 0)).collect();
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
    let (most, fewest) = (held.values().max(), held.values().min());
    match (most, fewest) {
        (Some(most), Some(fewest)) if most - fewest > 1 => Some(format!("shards are {held:?}")),
        _ => None,
    }
}
