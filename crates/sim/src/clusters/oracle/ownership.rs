//! Oracles of holding, serving and writing a shard.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::ShardId;
use shardwright_placement::{Claim, NodeAddress, TargetHeader};

use super::{ensure, violation};
use crate::clusters::counter::ObjectSite;
use crate::clusters::fenced_store::Effect;
use crate::clusters::stored_state::StoredState;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const CLAIMS: &Oracle = &Oracle::of_the_world(
    "claims",
    "only a member claims a shard, only if no member holds it, and under a higher fence; only a \
     held shard is released, and keeps its fence; a holder rewrites its claim only unchanged",
);

pub(in crate::clusters) const LEADERSHIP: &Oracle = &Oracle::of_the_world(
    "leadership",
    "only the current leader and operators write targets, and each write is the next version",
);

pub(in crate::clusters) const EFFECTS: &Oracle = &Oracle::of_the_world(
    "one writer per fence",
    "accepted accesses of two nodes to one shard have two fences, and the fences of a shard never \
     fall",
);

pub(in crate::clusters) const SERVING: &Oracle = &Oracle::of_the_world(
    "only the holder serves",
    "an object handles calls only on the holder of its shard, under the fence of the claim; a call \
     that ends after the shard was lost is not acknowledged",
);

pub(in crate::clusters) const EVICTION: &Oracle = &Oracle::of_the_world(
    "eviction",
    "a node releases a shard only after it has deactivated all objects of the shard",
);

pub(in crate::clusters) const TAKEOVER: &Oracle = &Oracle::of_the_world(
    "takeover",
    "the shards of a dead node have new holders within two seconds if every trusted node claims; a \
     shard whose target does not claim gets one within two seconds after it counts as stuck",
);

/// Judges a claim or a release against the state before it.
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
            format!("shard {shard} was released as {after:?}, before it was {before:?}")
        });
    };
    ensure(CLAIMS, stored.is_live(claimer), || {
        format!("shard {shard} was claimed by {claimer:?}, which is not a member")
    })?;
    if before == Some(after) {
        return Ok(());
    }
    let held_by = stored.holder(shard);
    ensure(CLAIMS, held_by.is_none(), || {
        format!("shard {shard} was claimed by {claimer:?} while {held_by:?} held it")
    })?;
    ensure(CLAIMS, fence.is_none_or(|fence| fence < after.fence), || {
        format!("shard {shard} was claimed under fence {}, after {fence:?}", after.fence)
    })
}

/// Judges a write of targets. Without a writer, an operator wrote them.
pub(in crate::clusters) fn judge_targets(
    stored: &StoredState,
    after: TargetHeader,
    writer: Option<&NodeAddress>,
) -> Result<(), Finding> {
    let (before, next) = (stored.header.version, after.version);
    ensure(LEADERSHIP, next == before.next(), || {
        format!("version {next} replaced version {before}")
    })?;
    let leader = stored.leader.as_ref().map(|leader| &leader.address);
    ensure(LEADERSHIP, writer.is_none() || writer == leader, || {
        format!("version {next} was written by {writer:?} while {leader:?} led")
    })
}

/// The last accepted access to each shard.
#[derive(Default)]
pub(in crate::clusters) struct Effects {
    last: BTreeMap<ShardId, Effect>,
}

impl Effects {
    /// Judges an accepted access.
    pub(in crate::clusters) fn judge(&mut self, effect: Effect) -> Result<(), Finding> {
        let (shard, fence) = (effect.shard, effect.fence);
        ensure(EFFECTS, fence.is_some(), || format!("shard {shard} was accessed without a fence"))?;
        if let Some(last) = self.last.get(&shard) {
            ensure(EFFECTS, last.fence <= fence, || {
                format!("shard {shard} was accessed under {fence:?} after {:?}", last.fence)
            })?;
            let is_same = (last.process, last.life) == (effect.process, effect.life);
            ensure(EFFECTS, is_same || last.fence < fence, || {
                format!("two nodes accessed shard {shard} under {fence:?}: {last:?}, {effect:?}")
            })?;
        }
        self.last.insert(shard, effect);
        Ok(())
    }
}

/// Whether a node holds the shard of an object, under the fence that the object got.
pub(in crate::clusters) fn holds(
    stored: &StoredState,
    node: &NodeAddress,
    site: &ObjectSite,
) -> bool {
    let Some(shard) = site.shard else { return true };
    let Some(claim) = stored.claims.get(&shard) else { return false };
    let is_its = claim.holder.as_ref().is_some_and(|holder| holder.address == *node);
    is_its && Some(claim.fence) == site.fence
}

/// Judges an object that starts to handle a call.
pub(in crate::clusters) fn judge_start(
    stored: &StoredState,
    node: &NodeAddress,
    site: &ObjectSite,
) -> Result<(), Finding> {
    ensure(SERVING, holds(stored, node, site), || {
        let claim = site.shard.and_then(|shard| stored.claims.get(&shard));
        format!("{node} serves at {site:?}, the claim is {claim:?}")
    })
}

/// The violation that a node acknowledged a call for a shard that it had lost.
pub(in crate::clusters) fn acknowledged(call: u64) -> Finding {
    violation(SERVING, format!("a node acknowledged call {call} after it had lost the shard"))
}

/// Number of active objects by process and shard. A crash deactivates all objects of a process.
#[derive(Default)]
pub(in crate::clusters) struct ActiveObjects {
    objects: BTreeMap<(usize, ShardId), u64>,
}

impl ActiveObjects {
    pub(in crate::clusters) fn activated(&mut self, site: &ObjectSite) {
        if let Some(shard) = site.shard {
            *self.objects.entry((site.process, shard)).or_default() += 1;
        }
    }

    pub(in crate::clusters) fn deactivated(&mut self, site: &ObjectSite) {
        if let Some(shard) = site.shard
            && let Some(count) = self.objects.get_mut(&(site.process, shard))
        {
            *count = count.saturating_sub(1);
        }
    }

    /// Judges a release.
    pub(in crate::clusters) fn judge(&self, process: usize, shard: ShardId) -> Result<(), Finding> {
        let active = self.objects.get(&(process, shard)).copied().unwrap_or_default();
        ensure(EVICTION, active == 0, || {
            format!("process {process} released shard {shard} with {active} active objects")
        })
    }
}

/// The shards that have had no holder since a node died.
pub(in crate::clusters) struct UnheldShards {
    shards: BTreeSet<ShardId>,
    /// A node on trial. It may be the target of one of these shards.
    on_trial: Option<NodeAddress>,
}

impl UnheldShards {
    pub(in crate::clusters) fn new(stored: &StoredState, on_trial: Option<NodeAddress>) -> Self {
        Self { shards: stored.assignments.keys().copied().collect(), on_trial }
    }

    /// Removes the shards that have a holder now. Returns whether enough of them have had one.
    pub(in crate::clusters) fn update(&mut self, stored: &StoredState) -> bool {
        self.shards.retain(|shard| stored.holder(*shard).is_none());
        let is_trial_shard = |shard: &&ShardId| {
            let target = stored
                .assignments
                .get(shard)
                .and_then(|assignment| assignment.target.node.as_ref());
            self.on_trial.is_some() && target == self.on_trial.as_ref()
        };
        let allowed = self.shards.iter().filter(is_trial_shard).count().min(1);
        self.shards.len() <= allowed
    }

    /// The violation that the takeover took too long.
    pub(in crate::clusters) fn late_takeover(&self, stored: &StoredState) -> Finding {
        let with_target = |shard: &ShardId| {
            let assignment = stored.assignments.get(shard);
            (shard.as_raw(), assignment.and_then(|assignment| assignment.target.node.clone()))
        };
        let shards: Vec<_> = self.shards.iter().map(with_target).collect();
        violation(TAKEOVER, format!("without a holder: {shards:?}; on trial: {:?}", self.on_trial))
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
    fn double_writer_falling_fence_and_missing_fence_are_detected() {
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
