use shardwright_placement::NodeAddress;

use super::{broken, ensure};
use crate::clusters::counter::Place;
use crate::clusters::truth::Truth;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "only the holder serves",
    "an object begins to answer only on the node that has its shard, and under the fence of that \
     claim; what ends after another has claimed the shard is not acknowledged",
);

/// Whether a node has a shard under a fence. One whose session ended before its time cannot know.
pub(in crate::clusters) fn holds(truth: &Truth, node: &NodeAddress, place: &Place) -> bool {
    let Some(shard) = place.shard else { return true };
    let Some(claim) = truth.claims.get(&shard) else { return false };
    let is_its = claim.holder.as_ref().is_some_and(|holder| holder.address == *node);
    is_its && Some(claim.fence) == place.fence
}

/// Judges an object that begins to answer a call.
pub(in crate::clusters) fn begins(
    truth: &Truth,
    node: &NodeAddress,
    place: &Place,
) -> Result<(), Finding> {
    ensure(ORACLE, holds(truth, node, place), || {
        let claim = place.shard.and_then(|shard| truth.claims.get(&shard));
        format!("{node} serves by {place:?}, and the shard is {claim:?}")
    })
}

/// An answer that should not have been given.
pub(in crate::clusters) fn acknowledged(call: u64) -> Finding {
    broken(ORACLE, format!("call {call} was acknowledged by a node that had lost the shard"))
}
