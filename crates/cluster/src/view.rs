use std::collections::BTreeSet;
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, ShardId};
use shardwright_placement::{
    ClusterConfig, Membership, NodeAddress, NodeInstance, Readiness, RoutingTable, ShardMap,
};
use shardwright_store::Revision;

use super::unreadable::Quarantined;

/// What a process knows of a cluster at one moment. It never changes; the next moment is another
/// view.
///
/// Nothing is decided by it: it says what to try, and a commit decides. What the process stores
/// itself is in it as soon as the operation returns, though what others stored before may come
/// later.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// Which view of this process; each has the next number.
    pub generation: u64,
    /// Up to which moment of the store all that is stored of members, shards and the leader is in
    /// it.
    pub revision: Revision,
    /// Where shards should be and are.
    pub map: Arc<ShardMap>,
    /// The nodes, and since when they are the same.
    pub members: Arc<Membership>,
    /// The gates.
    pub gates: Arc<BTreeSet<NodeAddress>>,
    /// Who is stored as the leader. It may be gone.
    pub leader: Option<NodeInstance>,
    /// The nodes that an operator wants empty, whether they are there or not.
    pub drained: Arc<BTreeSet<NodeAddress>>,
    /// What is stored and cannot be read.
    pub quarantine: Arc<Vec<Quarantined>>,
    /// TargetSince when each part is what it is.
    pub changed: Changed,
}

/// The generation of the view in which each part changed last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Targets or claims.
    pub map: u64,
    /// Nodes, or whether one drains.
    pub members: u64,
    /// Gates.
    pub gates: u64,
    /// The leader.
    pub leader: u64,
}

impl ClusterView {
    /// Who leads: whoever is stored as the leader, if it is a member in that life.
    #[must_use]
    pub fn live_leader(&self) -> Option<&NodeInstance> {
        self.leader.as_ref().filter(|leader| self.members.is_live(leader.borrowed()))
    }

    /// The shards that a node holds, in order, with the fences of its claims.
    pub fn held_by(&self, holder: &NodeInstance) -> impl Iterator<Item = (ShardId, FenceEpoch)> {
        self.map.iter().filter_map(|info| {
            let is_held = info.current == Some(holder.borrowed());
            Some((info.shard, info.fence.filter(|_| is_held)?))
        })
    }

    /// Where calls go by this view. `own` is the node that asks; a gate is none.
    #[must_use]
    pub fn routing(&self, own: Option<&NodeInstance>, config: &ClusterConfig) -> RoutingTable {
        RoutingTable::new(&self.map, &self.members, own, config)
    }

    /// Whether every shard is where it should be.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness::of(&self.map, &self.members)
    }
}
