use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::member::{Member, Membership};
use crate::shard_map::ShardMap;
use crate::sharding::ShardOutOfRange;
use crate::target::{Target, TargetChange, TargetHeader, TargetSince, TargetUpdate};

/// Why a shard cannot be moved to a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignRefused {
    /// The shard does not exist.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// The node is not a member.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node is draining.
    #[error("{0} is draining")]
    Draining(NodeAddress),
    /// The shard is pinned.
    #[error("the shard is pinned; unpin it first, or pin it to the other node")]
    Pinned,
    /// The node is the target already.
    #[error("the target of the shard is {0} already")]
    AlreadyThere(NodeAddress),
}

/// What the leader writes to move a shard on request.
///
/// A freeze does not stop it: it stops only automatic moves.
pub fn reassign(
    map: &ShardMap,
    members: &Membership,
    shard: ShardId,
    to: &NodeAddress,
    now: LogicalTime,
) -> Result<TargetUpdate, ReassignRefused> {
    let info = map.info(shard)?;
    match members.get(to.as_str()) {
        None => return Err(ReassignRefused::NotAMember(to.clone())),
        Some(Member { draining: true, .. }) => return Err(ReassignRefused::Draining(to.clone())),
        Some(_) => {}
    }
    if info.flags.is_pinned() {
        return Err(ReassignRefused::Pinned);
    }
    if info.target == Some(to) {
        return Err(ReassignRefused::AlreadyThere(to.clone()));
    }
    let since = moved(info.target, now);
    let target = Target { node: Some(to.clone()), flags: info.flags.clone(), since };
    Ok(one_change(map.header(), shard, target))
}

/// The time of a target change, for a shard whose target was `before`.
pub(crate) fn moved(before: Option<&NodeAddress>, now: LogicalTime) -> TargetSince {
    if before.is_some() { TargetSince::Moved(now) } else { TargetSince::Placed(now) }
}

/// A write that changes one shard.
pub(crate) fn one_change(header: TargetHeader, shard: ShardId, target: Target) -> TargetUpdate {
    let header = TargetHeader { version: header.version.next(), ..header };
    TargetUpdate { header, changes: vec![TargetChange { shard, target }] }
}

/// Why a shard cannot be pinned or unpinned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PinRefused {
    /// The shard does not exist.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// The shard has no target to be pinned to.
    #[error("the shard has no target; name the node to pin it to")]
    NoTarget,
    /// The node is not a member.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node is draining.
    #[error("{0} is draining")]
    Draining(NodeAddress),
    /// The shard is pinned there already.
    #[error("the shard is pinned to {0} already")]
    AlreadyPinned(NodeAddress),
    /// The shard is not pinned.
    #[error("the shard is not pinned")]
    NotPinned,
}

/// What the leader writes to pin a shard to a node, or to its current target.
pub fn pin(
    map: &ShardMap,
    members: &Membership,
    shard: ShardId,
    to: Option<&NodeAddress>,
    now: LogicalTime,
) -> Result<TargetUpdate, PinRefused> {
    let info = map.info(shard)?;
    let to = to.or(info.target).ok_or(PinRefused::NoTarget)?;
    match members.get(to.as_str()) {
        None => return Err(PinRefused::NotAMember(to.clone())),
        Some(Member { draining: true, .. }) => return Err(PinRefused::Draining(to.clone())),
        Some(_) => {}
    }
    let stays = info.target == Some(to);
    if stays && info.flags.is_pinned() && info.flags.home().is_none() {
        return Err(PinRefused::AlreadyPinned(to.clone()));
    }
    let since = if stays { info.since } else { moved(info.target, now) };
    let target = Target { node: Some(to.clone()), flags: info.flags.pinned(), since };
    Ok(one_change(map.header(), shard, target))
}

/// What the leader writes to unpin a shard. It does not move now.
pub fn unpin(map: &ShardMap, shard: ShardId) -> Result<TargetUpdate, PinRefused> {
    let info = map.info(shard)?;
    if !info.flags.is_pinned() {
        return Err(PinRefused::NotPinned);
    }
    let node = info.target.cloned();
    let target = Target { node, flags: info.flags.unpinned(), since: info.since };
    Ok(one_change(map.header(), shard, target))
}

/// The freeze would change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreezeRefused {
    /// The cluster is frozen.
    #[error("the cluster is frozen already")]
    AlreadyFrozen,
    /// The cluster is not frozen.
    #[error("the cluster is not frozen")]
    NotFrozen,
}

/// What the leader writes to freeze or thaw the cluster. A frozen cluster does not rebalance.
///
/// Shards of dead and draining nodes still move, because their calls would fail otherwise.
pub fn freeze(map: &ShardMap, frozen: bool) -> Result<TargetUpdate, FreezeRefused> {
    let header = map.header();
    match (header.frozen, frozen) {
        (true, true) => Err(FreezeRefused::AlreadyFrozen),
        (false, false) => Err(FreezeRefused::NotFrozen),
        (true, false) | (false, true) => {
            let header = TargetHeader { version: header.version.next(), frozen, ..header };
            Ok(TargetUpdate { header, changes: Vec::new() })
        }
    }
}
