use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::member::{Member, Membership};
use crate::shard_map::ShardMap;
use crate::sharding::ShardOutOfRange;
use crate::target::{Since, Target, TargetChange, TargetHeader, TargetUpdate};

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
    /// Somebody wants the shard to stay where it is.
    #[error("the shard is pinned; unpin it first, or pin it to the other node")]
    Pinned,
    /// It should be there already.
    #[error("the shard is meant for {0} already")]
    AlreadyThere(NodeAddress),
}

/// What the leader writes to move a shard because somebody asked.
///
/// A freeze does not stop it: it stops what nobody asked for.
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
pub(crate) fn moved(before: Option<&NodeAddress>, now: LogicalTime) -> Since {
    if before.is_some() { Since::Moved(now) } else { Since::Placed(now) }
}

/// A write that changes one shard.
pub(crate) fn one_change(header: TargetHeader, shard: ShardId, target: Target) -> TargetUpdate {
    let header = TargetHeader { version: header.version.next(), ..header };
    TargetUpdate { header, changes: vec![TargetChange { shard, target }] }
}
