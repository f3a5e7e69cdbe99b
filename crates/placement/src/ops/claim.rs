use shardwright_contracts::{FenceEpoch, FenceEpochError};

use crate::address::NodeAddress;
use crate::claim::{Claim, ShardInfo};
use crate::member::{Holder, Membership};

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
/// Whoever stores it compares the shard's claim, the claimer's membership and, where another had
/// the shard, the absence of that one's membership: what is decided here on what was read must
/// still be so when it is written. No fence below `floor` is given.
pub fn claim(
    info: ShardInfo<'_>,
    claimer: &Holder,
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
    // Below the floor a fence is stale: whoever claimed with it holds nothing and blocks nobody.
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
