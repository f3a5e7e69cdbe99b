//! Who has a shard, who serves and who writes.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::ShardId;
use shardwright_placement::{Claim, NodeAddress, TargetHeader};

use super::{broken, ensure};
use crate::clusters::counter::CounterState;
use crate::clusters::fenced_store::Effect;
use crate::clusters::stored_state::StoredState;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const CLAIMS: &Oracle = &Oracle::of_the_world(
    "claims",
    "a shard is claimed by a member, from nobody or from one that is no member any more, and under \
     a higher fence; whoever releases it had it, and whoever keeps it changes nothing",
);

pub(in crate::clusters) const LEADING: &Oracle = &Oracle::of_the_world(
    "leading",
    "targets are written by who leads at that moment, or by an operator, one version after the \
     other",
);

pub(in crate::clusters) const EFFECTS: &Oracle = &Oracle::of_the_world(
    "one writer per fence",
    "what is accepted of two nodes for one shard comes under two fences, and the fences of a shard \
     never fall",
);

pub(in crate::clusters) const SERVING: &Oracle = &Oracle::of_the_world(
    "only the holder serves",
    "an object begins to answer only on the node that has its shard, and under the fence of that \
     claim; what ends after another has claimed the shard is not acknowledged",
);

pub(in crate::clusters) const EVICTION: &Oracle = &Oracle::of_the_world(
    "eviction",
    "a shard is released only when none of its objects is awake on the node any more",
);

pub(in crate::clusters) const TAKING_OVER: &Oracle = &Oracle::of_the_world(
    "taking over",
    "what a node had that is gone, others have within two seconds, as long as those claim that are \
     trusted; and when it has been noticed that one does not, others have what was meant for it",
);

/// Judges a claim or a release by what was stored before.
pub(in crate::clusters) fn judge_claim(
    stored: &StoredState,
    shard: ShardId,
    after: &Claim,
) -> Result<(), Finding> {
    let before = stored.claims.get(&shard);
    let fence = before.map(|before| before.fence);
    let Some(claimer) = &after.holder else {
        let had = before.is_some_and(|before| before.holder.is_some());
        return ensure(CLAIMS, had && fence == Some(after.fence), || {
            format!("shard {shard} was released by {after:?}, and before it was {before:?}")
        });
    };
    ensure(CLAIMS, stored.is_live(claimer), || {
        format!("shard {shard} was claimed by {claimer:?}, which is no member")
    })?;
    if before == Some(after) {
        return Ok(());
    }
    let held_by = stored.holder(shard);
    ensure(CLAIMS, held_by.is_none(), || {
        format!("shard {shard} was claimed by {claimer:?} though {held_by:?} has it")
    })?;
    ensure(CLAIMS, fence.is_none_or(|fence| fence < after.fence), || {
        format!("shard {shard} was claimed under fence {}, after {fence:?}", after.fence)
    })
}

/// Judges a write of targets by a node, or by an operator if it is none.
pub(in crate::clusters) fn judge_targets(
    stored: &StoredState,
    after: TargetHeader,
    writer: Option<&NodeAddress>,
) -> Result<(), Finding> {
    let (before, next) = (stored.header.version, after.version);
    ensure(LEADING, next == before.next(), || format!("version {next} was written over {before}"))?;
    let leader = stored.leader.as_ref().map(|leader| &leader.address);
    ensure(LEADING, writer.is_none() || writer == leader, || {
        format!("version {next} was written by {writer:?} while {leader:?} led")
    })
}

/// Who wrote last to each shard, and under which fence.
#[derive(Default)]
pub(in crate::clusters) struct Effects {
    last: BTreeMap<ShardId, Effect>,
}

impl Effects {
    /// Judges what the store of objects accepted.
    pub(in crate::clusters) fn judge(&mut self, effect: Effect) -> Result<(), Finding> {
        let (shard, fence) = (effect.shard, effect.fence);
        ensure(EFFECTS, fence.is_some(), || format!("shard {shard} was written without a fence"))?;
        if let Some(last) = self.last.get(&shard) {
            ensure(EFFECTS, last.fence <= fence, || {
                format!("shard {shard} was written under {fence:?} after {:?}", last.fence)
            })?;
            let is_same = (last.process, last.life) == (effect.process, effect.life);
            ensure(EFFECTS, is_same || last.fence < fence, || {
                format!("two nodes wrote to shard {shard} under {fence:?}: {last:?}, {effect:?}")
            })?;
        }
        self.last.insert(shard, effect);
        Ok(())
    }
}

/// Whether a node has a shard under a fence. One whose session ended before its time cannot know.
pub(in crate::clusters) fn holds(
    stored: &StoredState,
    node: &NodeAddress,
    place: &CounterState,
) -> bool {
    let Some(shard) = place.shard else { return true };
    let Some(claim) = stored.claims.get(&shard) else { return false };
    let is_its = claim.holder.as_ref().is_some_and(|holder| holder.address == *node);
    is_its && Some(claim.fence) == place.fence
}

/// Judges an object that begins to answer a call.
pub(in crate::clusters) fn begins(
    stored: &StoredState,
    node: &NodeAddress,
    place: &CounterState,
) -> Result<(), Finding> {
    ensure(SERVING, holds(stored, node, place), || {
        let claim = place.shard.and_then(|shard| stored.claims.get(&shard));
        format!("{node} serves by {place:?}, and the shard is {claim:?}")
    })
}

/// An answer that should not have been given.
pub(in crate::clusters) fn acknowledged(call: u64) -> Finding {
    broken(SERVING, format!("call {call} was acknowledged by a node that had lost the shard"))
}

/// How many objects are awake, by process and shard. One that dies takes its objects along.
#[derive(Default)]
pub(in crate::clusters) struct Awake {
    objects: BTreeMap<(usize, ShardId), u64>,
}

impl Awake {
    pub(in crate::clusters) fn woke(&mut self, place: &CounterState) {
        if let Some(shard) = place.shard {
            *self.objects.entry((place.process, shard)).or_default() += 1;
        }
    }

    pub(in crate::clusters) fn went(&mut self, place: &CounterState) {
        if let Some(shard) = place.shard
            && let Some(count) = self.objects.get_mut(&(place.process, shard))
        {
            *count = count.saturating_sub(1);
        }
    }

    /// Judges a release.
    pub(in crate::clusters) fn judge(&self, process: usize, shard: ShardId) -> Result<(), Finding> {
        let awake = self.objects.get(&(process, shard)).copied().unwrap_or_default();
        ensure(EVICTION, awake == 0, || {
            format!("process {process} released shard {shard} with {awake} objects awake")
        })
    }
}

/// The shards that nobody was seen to have since a node is gone.
pub(in crate::clusters) struct Waiting {
    shards: BTreeSet<ShardId>,
    /// One that is on trial, which may be what one of them waits for.
    on_trial: Option<NodeAddress>,
}

impl Waiting {
    pub(in crate::clusters) fn new(stored: &StoredState, on_trial: Option<NodeAddress>) -> Self {
        Self { shards: stored.aims.keys().copied().collect(), on_trial }
    }

    /// Looks who has them now, and tells whether somebody has had each.
    pub(in crate::clusters) fn look(&mut self, stored: &StoredState) -> bool {
        self.shards.retain(|shard| stored.holder(*shard).is_none());
        let is_tried = |shard: &&ShardId| {
            let meant = stored.aims.get(shard).and_then(|aim| aim.target.node.as_ref());
            self.on_trial.is_some() && meant == self.on_trial.as_ref()
        };
        let allowed = self.shards.iter().filter(is_tried).count().min(1);
        self.shards.len() <= allowed
    }

    /// What is wrong if nobody has had some of them for too long.
    pub(in crate::clusters) fn too_long(&self, stored: &StoredState) -> Finding {
        let meant = |shard: &ShardId| {
            let aim = stored.aims.get(shard);
            (shard.as_raw(), aim.and_then(|aim| aim.target.node.clone()))
        };
        let shards: Vec<_> = self.shards.iter().map(meant).collect();
        broken(TAKING_OVER, format!("nobody has {shards:?}; on trial is {:?}", self.on_trial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use shardwright_contracts::FenceEpoch;

    fn effect(process: usize, fence: u64) -> Effect {
        let (shard, fence) = (ShardId::from_raw(3), FenceEpoch::from_raw(fence).ok());
        Effect { process, life: 1, shard, fence }
    }

    #[test]
    fn two_nodes_under_one_fence_a_fence_that_falls_and_no_fence_are_noticed() {
        let mut effects = Effects::default();
        assert_eq!(effects.judge(effect(0, 4)), Ok(()));
        assert_eq!(effects.judge(effect(0, 4)), Ok(()));
        assert!(effects.judge(effect(1, 4)).unwrap_err().text.contains("two nodes"));
        assert_eq!(effects.judge(effect(1, 5)), Ok(()));
        assert!(effects.judge(effect(0, 4)).is_err());
        assert!(effects.judge(Effect { fence: None, ..effect(1, 5) }).is_err());
        assert!(effects.judge(Effect { life: 2, ..effect(1, 5) }).is_err(), "another life");
    }
}
