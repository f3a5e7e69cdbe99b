use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::flags::Flags;
use crate::member::{Holder, HolderRef, Membership};
use crate::target::Since;

/// What nodes write, one per shard: who has claimed it, or that nobody has any more. It is kept
/// after a release, so that the fence never falls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who has the shard; nobody after a release.
    pub holder: Option<Holder>,
    /// The number that rose with this claim.
    pub fence: FenceEpoch,
}

/// All that is known of one shard: what the leader says and what a node has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardInfo<'a> {
    /// Which one.
    pub shard: ShardId,
    /// Where it should be.
    pub target: Option<&'a NodeAddress>,
    /// Who has claimed it and not released it. That node may be gone.
    pub current: Option<HolderRef<'a>>,
    /// What else the leader says of it.
    pub flags: &'a Flags,
    /// The fence of the last claim, if there ever was one.
    pub fence: Option<FenceEpoch>,
    /// Since when it has its target.
    pub since: Since,
}

impl<'a> ShardInfo<'a> {
    /// Who has the shard, if that node is a member in the life in which it claimed.
    #[must_use]
    pub fn owner(&self, members: &Membership) -> Option<HolderRef<'a>> {
        self.current.filter(|holder| members.is_live(*holder))
    }

    /// Whether the node that should have the shard has it.
    #[must_use]
    pub fn is_settled(&self, members: &Membership) -> bool {
        self.target.is_some() && self.owner(members).map(|owner| owner.address) == self.target
    }
}
