use shardwright_contracts::{LogicalTime, ShardId};

use super::reassign::{moved, one_change};
use crate::address::NodeAddress;
use crate::member::{Member, Membership};
use crate::shard_map::ShardMap;
use crate::sharding::ShardOutOfRange;
use crate::target::{Target, TargetUpdate};

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
