//! What a node has to do about its shards, how it gives one away, and how far a node is that gives
//! all of them away.

use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::claim::ShardInfo;
use crate::member::{Holder, Membership};
use crate::ops;
use crate::shard_map::ShardMap;

/// What a node knows of a shard that it may have to give away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover {
    /// Whether the node still admits calls to the shard.
    pub admitting: bool,
    /// Calls that run. While the shard drains, more may come, but only as part of one that runs.
    pub calls: u64,
    /// Objects of the shard that are on the node.
    pub objects: u64,
}

/// What the node does next about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverStep {
    /// It does not hold the shard.
    Nothing,
    /// It keeps the shard and serves it.
    Serve,
    /// It takes back that it gives the shard away, for the leader changed its mind.
    AdmitAgain,
    /// It stops admitting calls that are not part of one that runs.
    StopAdmitting,
    /// It lets the calls end that run.
    AwaitCalls,
    /// It evicts the objects.
    Evict,
    /// It releases the shard.
    Release,
}

impl Handover {
    /// The next step of `holder` with a shard. Nothing is released before everything is evicted,
    /// and nothing is evicted under a call.
    #[must_use]
    pub fn next_step(self, info: ShardInfo<'_>, holder: &Holder, leaving: bool) -> HandoverStep {
        if info.current != Some(holder.borrowed()) {
            return HandoverStep::Nothing;
        }
        let stays = !must_go(info, holder, leaving);
        match self {
            Self { admitting: true, .. } if stays => HandoverStep::Serve,
            Self { admitting: false, .. } if stays => HandoverStep::AdmitAgain,
            Self { admitting: true, .. } => HandoverStep::StopAdmitting,
            Self { calls: 1.., .. } => HandoverStep::AwaitCalls,
            Self { objects: 1.., .. } => HandoverStep::Evict,
            Self { .. } => HandoverStep::Release,
        }
    }
}

/// Whether a node has to give up a shard that it holds. Without a target there is nobody who would
/// take it.
fn must_go(info: ShardInfo<'_>, holder: &Holder, leaving: bool) -> bool {
    leaving || info.target.is_some_and(|target| *target != holder.address)
}

/// The shards that a node has to do something about, in ascending order, which is the order in
/// which their locks are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duties {
    /// Those that it should and may claim.
    pub claim: Vec<ShardId>,
    /// Those that it holds and should not.
    pub give_up: Vec<ShardId>,
}

impl Duties {
    /// What `holder` has to do. One that is leaving claims nothing.
    #[must_use]
    pub fn of(
        map: &ShardMap,
        holder: &Holder,
        members: &Membership,
        floor: FenceEpoch,
        leaving: bool,
    ) -> Self {
        let mut duties = Self::default();
        for info in map.iter() {
            if info.current == Some(holder.borrowed()) && must_go(info, holder, leaving) {
                duties.give_up.push(info.shard);
            } else if !leaving && ops::claim(info, holder, members, floor).is_ok() {
                duties.claim.push(info.shard);
            }
        }
        duties
    }
}

/// How far a node is with giving everything away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Shards that it holds.
    pub held: u32,
    /// Shards that are still meant for it.
    pub targeted: u32,
    /// Those among them that are pinned to it, and go only if pins give way.
    pub pinned: u32,
}

impl DrainProgress {
    /// Counts what a node still has.
    #[must_use]
    pub fn of(map: &ShardMap, node: &NodeAddress, members: &Membership) -> Self {
        let mut progress = Self::default();
        for info in map.iter() {
            let held = info.owner(members).is_some_and(|one| one.address == node);
            progress.held += u32::from(held);
            if info.target == Some(node) {
                progress.targeted += 1;
                progress.pinned += u32::from(info.flags.is_pinned());
            }
        }
        progress
    }

    /// Whether the node may go without a call noticing.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.held == 0 && self.targeted == 0
    }
}
