mod build;
mod explain;

use shardwright_contracts::{FenceEpoch, ShardId};

use crate::address::NodeAddress;
use crate::object_id::{ObjectIdError, ObjectIdRef, ObjectLocation};
use crate::sharding::{ShardOutOfRange, Sharding};
use crate::target::TargetVersion;

pub use self::explain::Explanation;

/// The routes of calls in one state of the cluster. A table is immutable; the next state has
/// another one.
///
/// Calls go to the holder of a shard, even if the target is another node: the holder serves until
/// its release. Routes name only members.
#[derive(Clone, Debug)]
pub struct RoutingTable {
    sharding: Sharding,
    version: TargetVersion,
    /// Every node that a route may name.
    nodes: Vec<NodeAddress>,
    /// The first of them are the members, by address. This is their number.
    members: usize,
    own: Option<NodeAt>,
    /// The data that every call reads, and nothing else.
    slots: Vec<Slot>,
    fences: Vec<Option<FenceEpoch>>,
    targets: Vec<Option<NodeAt>>,
    retries: Retries,
}

/// The index of a node in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeAt(u32);

impl NodeAt {
    /// Every node is a member or named by a shard, so the number fits.
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

/// What to do with a call that has no destination yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Hold it within its deadline. Retry when the cluster changes, or after this time.
    Hold {
        /// Milliseconds.
        at_most_ms: u64,
    },
    /// Fail it. The caller may retry after this time.
    Fail {
        /// Milliseconds.
        after_ms: u64,
    },
}

/// The destination of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// This node. The shard is absent for an object that belongs to none.
    Here {
        /// The object's shard.
        shard: Option<ShardId>,
    },
    /// To another node.
    There {
        /// The object's shard.
        shard: Option<ShardId>,
        /// The node.
        node: &'a NodeAddress,
    },
    /// None for a moment: the shard was released and its target is about to claim it.
    Moving {
        /// The object's shard.
        shard: ShardId,
        /// The node that is about to claim it.
        to: &'a NodeAddress,
        /// What to do with the call.
        retry: Retry,
    },
    /// None: the shard has no holder, and no target that could claim it.
    Unclaimed {
        /// The object's shard.
        shard: ShardId,
        /// What to do with the call.
        retry: Retry,
    },
    /// None: the node that holds the object is not a member. A call to a shard waits for the next
    /// claim. A call whose id names the node fails at once.
    NodeGone {
        /// The object's shard.
        shard: Option<ShardId>,
        /// The node.
        node: &'a str,
        /// What to do with the call.
        retry: Retry,
    },
}

/// Why an id has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The id is invalid.
    #[error(transparent)]
    Id(#[from] ObjectIdError),
    /// The id names a shard that does not exist.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
}

impl RoutingTable {
    /// The version of the targets in this table.
    #[must_use]
    pub const fn version(&self) -> TargetVersion {
        self.version
    }

    /// The mapping from ids to shards.
    #[must_use]
    pub const fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// The route of a call to an object.
    #[inline]
    pub fn route<'a>(&'a self, id: ObjectIdRef<'a>) -> Result<Route<'a>, ShardOutOfRange> {
        match id.location() {
            ObjectLocation::Hashed => Ok(self.slot_route(self.sharding.hashed(id.as_str()))),
            ObjectLocation::Shard(shard) => self.route_shard(shard),
            ObjectLocation::Node(node) => Ok(self.route_node(node)),
        }
    }

    /// The route of a call to an object by its unparsed id.
    #[inline]
    pub fn route_text<'a>(&'a self, id: &'a str) -> Result<Route<'a>, RouteError> {
        Ok(self.route(ObjectIdRef::parse(id)?)?)
    }

    /// The route of a call to any object of a shard.
    #[inline]
    pub fn route_shard(&self, shard: ShardId) -> Result<Route<'_>, ShardOutOfRange> {
        self.sharding.num_shards.index(shard)?;
        Ok(self.slot_route(shard))
    }

    /// The fence of a shard's last claim. A call carries it, so that a node can detect a later one.
    #[must_use]
    pub fn fence(&self, shard: ShardId) -> Option<FenceEpoch> {
        let index = self.sharding.num_shards.index(shard).ok()?;
        self.fences.get(index).copied().flatten()
    }

    /// The target of a shard, if it is a member.
    #[must_use]
    pub fn target(&self, shard: ShardId) -> Option<&NodeAddress> {
        let index = self.sharding.num_shards.index(shard).ok()?;
        self.node(self.targets.get(index).copied().flatten()?)
    }

    #[inline]
    fn slot_route(&self, shard: ShardId) -> Route<'_> {
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
                // No other node may serve the object, so nothing is worth waiting for.
                let retry = Retry::Fail { after_ms: self.retries.idle_ms };
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

    /// The node that owns the table, unless a gate does.
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

    /// What to do with a call that has no destination yet.
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
