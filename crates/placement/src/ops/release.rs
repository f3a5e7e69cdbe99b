use shardwright_contracts::FenceEpoch;

use crate::address::NodeAddress;
use crate::claim::{Claim, ShardInfo};
use crate::member::Holder;

/// Why a node gives a shard up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Releasing {
    /// The leader wants it elsewhere.
    Moved,
    /// The node leaves the cluster, whatever the leader wants.
    Leaving,
}

/// Why a node may not release a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefused {
    /// Nobody holds it.
    #[error("nobody holds the shard")]
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
    holder: &Holder,
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
    holder: &Holder,
    fence: FenceEpoch,
    objects: u64,
    why: Releasing,
) -> Result<Claim, ReleaseRefused> {
    keep(info, holder, fence)?;
    if why == Releasing::Moved && info.target == Some(&holder.address) {
        return Err(ReleaseRefused::MeantToStay);
    }
    if objects > 0 {
        return Err(ReleaseRefused::NotEvicted(objects));
    }
    Ok(Claim { holder: None, fence })
}
