use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::member::{Member, Membership};
use crate::shard_map::ShardMap;
use crate::sharding::ShardOutOfRange;
use crate::target::{Target, TargetChange, TargetHeader, TargetSince, TargetUpdate};

/// Why a shard cannot be moved to a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReassignRefused {
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// There is no such node.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node is leaving.
    #[error("{0} is draining")]
    Draining(NodeAddress),
    /// The shard is pinned to where it is.
    #[error("the shard is pinned; unpin it first, or pin it to the other node")]
    Pinned,
    /// It should be there already.
    #[error("the shard is meant for {0} already")]
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

/// How a shard that had `before` for its target gets another one.
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
    /// There is no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// It has no node that it could be pinned to.
    #[error("the shard has no target; name the node to pin it to")]
    NoTarget,
    /// There is no such node.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node is leaving.
    #[error("{0} is draining")]
    Draining(NodeAddress),
    /// It is pinned there.
    #[error("the shard is pinned to {0} already")]
    AlreadyPinned(NodeAddress),
    /// It is not pinned at all.
    #[error("the shard is not pinned")]
    NotPinned,
}

/// What the leader writes to pin a shard to a node, or to where it should be now.
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

/// What the leader writes so that a shard may be moved again. It stays where it is for now.
pub fn unpin(map: &ShardMap, shard: ShardId) -> Result<TargetUpdate, PinRefused> {
    let info = map.info(shard)?;
    if !info.flags.is_pinned() {
        return Err(PinRefused::NotPinned);
    }
    let node = info.target.cloned();
    let target = Target { node, flags: info.flags.unpinned(), since: info.since };
    Ok(one_change(map.header(), shard, target))
}

/// Nothing would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreezeRefused {
    /// The cluster is frozen.
    #[error("the cluster is frozen already")]
    AlreadyFrozen,
    /// The cluster is not frozen.
    #[error("the cluster is not frozen")]
    NotFrozen,
}

/// What the leader writes so that nothing is moved any more that need not be, or is again.
///
/// Shards of nodes that die or drain find a new one even so: the alternative is that calls fail.
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
