mod build;
mod explain;

use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::object_id::{ObjectIdError, ObjectIdRef, ObjectLocation};
use crate::sharding::{ShardOutOfRange, Sharding};
use crate::target::TargetVersion;

pub use self::explain::Explanation;

/// Where calls go, as of one state of the cluster. It never changes; the next state is another
/// table.
///
/// Calls go to the holder of a shard, also while it is meant for another: the holder serves until
/// it has nothing left to do. Only members of the cluster are ever named.
#[derive(Clone, Debug)]
pub struct RoutingTable {
    sharding: Sharding,
    version: TargetVersion,
    /// Every node that an answer may name.
    nodes: Vec<NodeAddress>,
    /// How many of them, at the front and by address, are members.
    members: usize,
    own: Option<NodeAt>,
    /// What is read for every call, and nothing else.
    slots: Vec<Slot>,
    fences: Vec<Option<FenceEpoch>>,
    targets: Vec<Option<NodeAt>>,
    retries: Retries,
}

/// The place of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeAt(u32);

impl NodeAt {
    /// Nodes are far fewer than numbers: each is a member or named by a shard.
    fn new(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Here,
    There(NodeAt),
    Moving(NodeAt),
    Unclaimed,
    Gone(NodeAt),
}

#[derive(Clone, Copy, Debug)]
struct Retries {
    strict: bool,
    moving_ms: u64,
    idle_ms: u64,
}

/// What to do with a call that has nowhere to go yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Hold it within its deadline: ask again when the cluster changes, or after this time.
    Hold {
        /// Milliseconds.
        at_most_ms: u64,
    },
    /// Fail it; its caller may try again after this time.
    Fail {
        /// Milliseconds.
        after_ms: u64,
    },
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// To this very node. The shard is absent for an object that belongs to none.
    Here {
        /// The object's shard.
        shard: Option<ShardId>,
    },
    /// To another node.
    There {
        /// The object's shard.
        shard: Option<ShardId>,
        /// Which node.
        node: &'a NodeAddress,
    },
    /// Nowhere for a moment: one node has released the shard and the next is about to claim it.
    Moving {
        /// The object's shard.
        shard: ShardId,
        /// Who is about to claim it.
        to: &'a NodeAddress,
        /// What to do with the call.
        retry: Retry,
    },
    /// Nowhere: the shard has no holder, and no target that could claim it.
    Unclaimed {
        /// The object's shard.
        shard: ShardId,
        /// What to do with the call.
        retry: Retry,
    },
    /// Nowhere: the node that has the object is no member any more.
    NodeGone {
        /// The object's shard.
        shard: Option<ShardId>,
        /// Which node.
        node: &'a str,
        /// What to do with the call.
        retry: Retry,
    },
}

/// Why an id has no route at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// It is no id.
    #[error(transparent)]
    Id(#[from] ObjectIdError),
    /// It names a shard that is not there.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
}

impl RoutingTable {
    /// Which state of all targets this is a table of.
    #[must_use]
    pub const fn version(&self) -> TargetVersion {
        self.version
    }

    /// How ids become shards here.
    #[must_use]
    pub const fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// Where a call to an object goes.
    #[inline]
    pub fn route<'a>(&'a self, id: ObjectIdRef<'a>) -> Result<Route<'a>, ShardOutOfRange> {
        match id.location() {
            ObjectLocation::Hashed => Ok(self.route_shard(self.sharding.hashed(id.as_str()))),
            ObjectLocation::Shard(shard) => {
                self.sharding.num_shards.index(shard)?;
                Ok(self.route_shard(shard))
            }
            ObjectLocation::Node(node) => Ok(self.route_node(node)),
        }
    }

    /// Where a call to an object goes whose id was not parsed yet.
    #[inline]
    pub fn route_text<'a>(&'a self, id: &'a str) -> Result<Route<'a>, RouteError> {
        Ok(self.route(ObjectIdRef::parse(id)?)?)
    }

    /// The fence of a shard's last claim. A call carries it, so that a node can detect that the
    /// caller knows of a later one.
    #[must_use]
    pub fn fence(&self, shard: ShardId) -> Option<FenceEpoch> {
        let index = self.sharding.num_shards.index(shard).ok()?;
        self.fences.get(index).copied().flatten()
    }

    /// The member that a shard is meant for.
    #[must_use]
    pub fn target(&self, shard: ShardId) -> Option<&NodeAddress> {
        let index = self.sharding.num_shards.index(shard).ok()?;
        self.node(self.targets.get(index).copied().flatten()?)
    }

    #[inline]
    fn route_shard(&self, shard: ShardId) -> Route<'_> {
        let slot = self.slots.get(shard.as_raw() as usize).copied().unwrap_or(Slot::Unclaimed);
        match slot {
            Slot::Here => Route::Here { shard: Some(shard) },
            Slot::There(at) => match self.node(at) {
                Some(node) => Route::There { shard: Some(shard), node },
                None => self.unclaimed(shard),
            },
            Slot::Moving(to) => match self.node(to) {
                Some(to) => Route::Moving { shard, to, retry: self.retry(self.retries.moving_ms) },
                None => self.unclaimed(shard),
            },
            Slot::Unclaimed => self.unclaimed(shard),
            Slot::Gone(at) => {
                let node = self.node(at).map_or("", NodeAddress::as_str);
                // The target is about to claim the shard, or there is none yet.
                let soon = self.target(shard).is_some();
                let Retries { moving_ms, idle_ms, .. } = self.retries;
                let retry = self.retry(if soon { moving_ms } else { idle_ms });
                Route::NodeGone { shard: Some(shard), node, retry }
            }
        }
    }

    fn route_node<'a>(&'a self, node: &'a str) -> Route<'a> {
        match self.member(node) {
            Some((at, _)) if self.own == Some(at) => Route::Here { shard: None },
            Some((_, node)) => Route::There { shard: None, node },
            None => {
                let retry = self.retry(self.retries.idle_ms);
                Route::NodeGone { shard: None, node, retry }
            }
        }
    }

    fn unclaimed(&self, shard: ShardId) -> Route<'_> {
        Route::Unclaimed { shard, retry: self.retry(self.retries.idle_ms) }
    }

    const fn retry(&self, millis: u64) -> Retry {
        if self.retries.strict {
            Retry::Fail { after_ms: millis }
        } else {
            Retry::Hold { at_most_ms: millis }
        }
    }

    /// The node that asks, if it is one.
    fn own_address(&self) -> Option<&NodeAddress> {
        self.node(self.own?)
    }

    #[inline]
    fn node(&self, at: NodeAt) -> Option<&NodeAddress> {
        self.nodes.get(at.0 as usize)
    }

    fn member(&self, address: &str) -> Option<(NodeAt, &NodeAddress)> {
        let members = self.nodes.get(..self.members)?;
        let at = members.binary_search_by(|member| member.as_str().cmp(address)).ok()?;
        Some((NodeAt::new(at), members.get(at)?))
    }
}

impl Route<'_> {
    /// The shard of the object, if it belongs to one.
    #[must_use]
    pub const fn shard(&self) -> Option<ShardId> {
        match *self {
            Self::Here { shard } | Self::There { shard, .. } | Self::NodeGone { shard, .. } => {
                shard
            }
            Self::Moving { shard, .. } | Self::Unclaimed { shard, .. } => Some(shard),
        }
    }

    /// What to do with a call that has nowhere to go yet.
    #[must_use]
    pub const fn retry(&self) -> Option<Retry> {
        match *self {
            Self::Here { .. } | Self::There { .. } => None,
            Self::Moving { retry, .. }
            | Self::Unclaimed { retry, .. }
            | Self::NodeGone { retry, .. } => Some(retry),
        }
    }
}

#[cfg(test)]
mod tests;
