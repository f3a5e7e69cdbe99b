use shardwright_contracts::{FenceEpoch, FenceEpochError};

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance};
use crate::shard_map::{Claim, ShardInfo};

/// Why a node may not claim a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefused {
    /// The cluster does not know the node.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node came back since: this is an earlier life of it.
    #[error("{0} is a member in another life")]
    Replaced(NodeAddress),
    /// No node should have the shard yet.
    #[error("the shard has no target")]
    NoTarget,
    /// Another node should have it.
    #[error("the shard is meant for {0}")]
    MeantForAnother(NodeAddress),
    /// It is the node's already.
    #[error("the shard is held with fence {0} by this very node")]
    AlreadyHeld(FenceEpoch),
    /// Another node has it and is a member: it has to release the shard first.
    #[error("{0} holds the shard and is a member")]
    HeldByMember(NodeAddress),
    /// There is no higher fence.
    #[error(transparent)]
    Fence(#[from] FenceEpochError),
}

/// What `claimer` writes to have a shard.
///
/// The driver compares the shard's claim, the claimer's membership and, where another had
/// the shard, the absence of that one's membership: what is decided here on what was read must
/// still be so when it is written. No fence below `floor` is given.
pub fn claim(
    info: ShardInfo<'_>,
    claimer: &NodeInstance,
    members: &Membership,
    floor: FenceEpoch,
) -> Result<Claim, ClaimRefused> {
    let address = &claimer.address;
    match members.get(address.as_str()) {
        None => return Err(ClaimRefused::NotAMember(address.clone())),
        Some(member) if member.holder != *claimer => {
            return Err(ClaimRefused::Replaced(address.clone()));
        }
        Some(_) => {}
    }
    match info.target {
        None => return Err(ClaimRefused::NoTarget),
        Some(target) if target != address => {
            return Err(ClaimRefused::MeantForAnother(target.clone()));
        }
        Some(_) => {}
    }
    let before = info.fence.unwrap_or(FenceEpoch::INITIAL);
    // Below the floor a fence is stale: a claim with it holds nothing and blocks no other.
    if let Some(current) = info.current.filter(|_| before >= floor) {
        if current == claimer.borrowed() {
            return Err(ClaimRefused::AlreadyHeld(before));
        }
        if members.is_live(current) {
            return Err(ClaimRefused::HeldByMember(current.address.clone()));
        }
    }
    Ok(Claim { holder: Some(claimer.clone()), fence: before.next_at_least(floor)? })
}

/// Why a node gives a shard up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The leader wants it elsewhere.
    Moved,
    /// The node leaves the cluster, whatever the leader wants.
    Leaving,
}

/// Why a node may not release a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefused {
    /// It has no holder.
    #[error("the shard has no holder")]
    NotHeld,
    /// Another node holds it, or the same in another life.
    #[error("{0} holds the shard")]
    HeldByAnother(NodeAddress),
    /// It was claimed again since.
    #[error("fence {presented} is stale, the shard is at {current}")]
    StaleFence {
        /// The fence of the claim that was to be released.
        presented: FenceEpoch,
        /// The fence of the shard.
        current: FenceEpoch,
    },
    /// The node should keep it.
    #[error("the shard is meant to stay")]
    MeantToStay,
    /// Objects of the shard are still there and might write.
    #[error("{0} objects of the shard are not evicted yet")]
    NotEvicted(u64),
}

/// What `holder` writes to keep a shard that it claimed with `fence`: the same claim, once more. A
/// release of it that is still on its way goes by what was there before, and comes too late.
pub fn keep(
    info: ShardInfo<'_>,
    holder: &NodeInstance,
    fence: FenceEpoch,
) -> Result<Claim, ReleaseRefused> {
    let (Some(current), Some(at)) = (info.current, info.fence) else {
        return Err(ReleaseRefused::NotHeld);
    };
    if current != holder.borrowed() {
        return Err(ReleaseRefused::HeldByAnother(current.address.clone()));
    }
    if at != fence {
        return Err(ReleaseRefused::StaleFence { presented: fence, current: at });
    }
    Ok(Claim { holder: Some(holder.clone()), fence })
}

/// What `holder` writes to give a shard up that it claimed with `fence`, once none of the shard's
/// objects is left on it.
pub fn release(
    info: ShardInfo<'_>,
    holder: &NodeInstance,
    fence: FenceEpoch,
    objects: u64,
    why: ReleaseReason,
) -> Result<Claim, ReleaseRefused> {
    keep(info, holder, fence)?;
    if why == ReleaseReason::Moved && info.target == Some(&holder.address) {
        return Err(ReleaseRefused::MeantToStay);
    }
    if objects > 0 {
        return Err(ReleaseRefused::NotEvicted(objects));
    }
    Ok(Claim { holder: None, fence })
}
