use shardwright_contracts::{FenceEpoch, FenceEpochError};

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance};
use crate::shard_map::{Claim, ShardInfo};

/// Why a node may not claim a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefused {
    /// The node is not a member.
    #[error("{0} is not a member")]
    NotAMember(NodeAddress),
    /// The node has restarted: this is an earlier incarnation.
    #[error("{0} is a member in another incarnation")]
    Replaced(NodeAddress),
    /// The shard has no target.
    #[error("the shard has no target")]
    NoTarget,
    /// Another node is the target.
    #[error("the target of the shard is {0}")]
    MeantForAnother(NodeAddress),
    /// This node holds it.
    #[error("this node holds the shard already, with fence {0}")]
    AlreadyHeld(FenceEpoch),
    /// Another member holds it and has to release it first.
    #[error("{0} holds the shard and is a member")]
    HeldByMember(NodeAddress),
    /// There is no higher fence.
    #[error(transparent)]
    Fence(#[from] FenceEpochError),
}

/// What `claimer` writes to claim a shard.
///
/// The driver compares the shard's claim, the claimer's membership and the absence of a former
/// holder's membership in the same commit. No fence below `floor` is granted.
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
    // A fence below the floor is stale: its claim holds nothing and blocks no other.
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

/// Why a node releases a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The leader has moved it.
    Moved,
    /// The node leaves the cluster.
    Leaving,
}

/// Why a node may not release a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefused {
    /// The shard has no holder.
    #[error("the shard has no holder")]
    NotHeld,
    /// Another node or another incarnation holds it.
    #[error("{0} holds the shard")]
    HeldByAnother(NodeAddress),
    /// The shard was claimed again since.
    #[error("fence {presented} is stale, the shard is at {current}")]
    StaleFence {
        /// The fence of the claim to release.
        presented: FenceEpoch,
        /// The fence of the shard.
        current: FenceEpoch,
    },
    /// The node is still the target.
    #[error("this node is the target of the shard")]
    MeantToStay,
    /// Objects of the shard are not evicted and could write.
    #[error("{0} objects of the shard are not evicted yet")]
    NotEvicted(u64),
}

/// What `holder` writes to keep a shard with `fence`: the same claim again. A release with unknown
/// outcome compares the earlier claim, so it can no longer apply.
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

/// What `holder` writes to release a shard with `fence`, after all its objects are evicted.
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
