//! Views and status of a cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};
use shardwright_placement::{
    ClusterConfig, DrainProgress, LeaderObservations, Member, Membership, NodeAddress,
    NodeInstance, Plan, PlanInput, Readiness, RouteError, RoutingTable, ShardMap, ShardOutOfRange,
    Sharding, TargetChunks, TargetHeader, plan,
};
use shardwright_store::Revision;

use super::format::Quarantined;
use super::handle::Cluster;
use super::state::quarantined;

/// What a process knows of a cluster at one moment. A view is immutable.
///
/// A view suggests what to try, and a commit decides. Writes of this process are in the view when
/// their operation returns. Earlier writes of other processes may appear later.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// Sequence number of the view within the process.
    pub generation: u64,
    /// Revision of the store up to which members, shards and the leader are included.
    pub revision: Revision,
    /// Where shards should be and are.
    pub map: Arc<ShardMap>,
    /// The nodes, and when they last changed.
    pub members: Arc<Membership>,
    /// The gates.
    pub gates: Arc<BTreeSet<NodeAddress>>,
    /// The stored leader, which may no longer be a member.
    pub leader: Option<NodeInstance>,
    /// The nodes that an operator has ordered to be emptied, members or not.
    pub drained: Arc<BTreeSet<NodeAddress>>,
    /// Stored values that cannot be read.
    pub quarantine: Arc<Vec<Quarantined>>,
    /// When each part last changed.
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
    /// The stored leader, if it is a member in that incarnation.
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

    /// The routing table of this view. `own` is the node that routes, or none for a gate.
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

/// Status of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// How ids map to shards, and the number of shards.
    pub sharding: Sharding,
    /// Header of the targets, with their version.
    pub header: TargetHeader,
    /// The leader, if it is a member.
    pub leader: Option<NodeInstance>,
    /// The nodes, by address.
    pub nodes: Vec<NodeStatus>,
    /// When the members last changed, as far as this process knows.
    pub members_since: LogicalTime,
    /// The gates.
    pub gates: Vec<NodeAddress>,
    /// Nodes that an operator has ordered to be emptied, members or not.
    pub drained: Vec<NodeAddress>,
    /// Whether every shard is where it should be.
    pub readiness: Readiness,
    /// Stored values that cannot be read.
    pub quarantine: Vec<Quarantined>,
    /// Revision of the store up to which the status is complete.
    pub revision: Revision,
}

/// Status of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub member: Member,
    /// Shards that it holds, and shards targeted at it.
    pub shards: DrainProgress,
}

impl Cluster {
    /// Returns the plan that a leader would make with these loads if the members had been stable
    /// for long enough. Writes nothing.
    ///
    /// A process that has just started does not know when members changed before. So the leader may
    /// still wait after a node joined or left, where this plan does not. The leader may also have
    /// waited for a node that does not claim, which this plan reports only after waiting as long
    /// itself.
    #[must_use]
    pub fn preview(&self, loads: Option<&[u64]>) -> Plan {
        let view = self.view();
        let (map, members, now) = (&*view.map, &*view.members, self.now());
        let config =
            ClusterConfig { cluster_state_stability_duration_ms: 0, ..self.config().clone() };
        let unreadable = view.quarantine.iter().map(|one| &one.key);
        let unreadable = quarantined(TargetChunks::of(map.num_shards()), unreadable);
        let observations = &LeaderObservations::default().without(unreadable);
        plan(&PlanInput { map, members, loads, config: &config, now, observations })
    }

    /// Returns the status of the cluster.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        let view = self.view();
        let node = |member: &Member| NodeStatus {
            member: member.clone(),
            shards: DrainProgress::of(&view.map, member.address(), &view.members),
        };
        ClusterStatus {
            sharding: self.config().sharding,
            header: view.map.header(),
            leader: view.live_leader().cloned(),
            nodes: view.members.iter().map(node).collect(),
            members_since: view.members.changed_at(),
            gates: view.gates.iter().cloned().collect(),
            drained: view.drained.iter().cloned().collect(),
            readiness: view.readiness(),
            quarantine: view.quarantine.to_vec(),
            revision: view.revision,
        }
    }

    /// The node that serves a shard, if one does.
    pub fn node_for_shard(&self, shard: ShardId) -> Result<Option<NodeAddress>, ShardOutOfRange> {
        let view = self.view();
        let owner = view.map.info(shard)?.owner(&view.members);
        Ok(owner.map(|owner| owner.address.clone()))
    }

    /// Explains in a sentence where a call to an object is routed, and why.
    pub fn explain(&self, id: &str) -> Result<String, RouteError> {
        let table = self.view().routing(None, self.config());
        table.explain(id).map(|explanation| explanation.to_string())
    }
}
