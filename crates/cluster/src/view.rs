//! What a process knows of a cluster, and what can be said about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId};
use shardwright_placement::{
    ClusterConfig, DrainProgress, LeaderObservations, Member, Membership, NodeAddress,
    NodeInstance, Plan, PlanInput, Readiness, RouteError, RoutingTable, ShardMap, Sharding,
    TargetChunks, TargetHeader, plan,
};
use shardwright_store::Revision;

use super::format::Quarantined;
use super::handle::Cluster;
use super::state::quarantined;

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
    /// Since when each part is what it is.
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

/// How a cluster is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterStatus {
    /// How ids become shards, and how many of these there are.
    pub sharding: Sharding,
    /// The version of targets, and what holds for all of them.
    pub header: TargetHeader,
    /// Who leads, if anybody does.
    pub leader: Option<NodeInstance>,
    /// The nodes, by address.
    pub nodes: Vec<NodeStatus>,
    /// Since when the same nodes are members, as far as this process knows.
    pub members_since: LogicalTime,
    /// The gates.
    pub gates: Vec<NodeAddress>,
    /// Nodes that an operator wants empty, whether they are there or not.
    pub drained: Vec<NodeAddress>,
    /// Whether every shard is where it should be.
    pub readiness: Readiness,
    /// What is stored and cannot be read.
    pub quarantine: Vec<Quarantined>,
    /// Up to which moment of the store all of this is known.
    pub revision: Revision,
}

/// How a node is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node.
    pub member: Member,
    /// What it holds, and what it should.
    pub shards: DrainProgress,
}

impl Cluster {
    /// What a leader would decide for which the nodes have been the same for long enough, with the
    /// reasons, given what shards bear. Nothing is written.
    ///
    /// A process that has just come knows since when nodes are the same no better than that. So
    /// whoever leads may wait where this does not, after a node came or went; and may have waited
    /// for a node that does not claim, of which this says nothing before it has waited as long.
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

    /// How the cluster is doing.
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

    /// Says in a sentence where a call to an object goes, and why.
    pub fn explain(&self, id: &str) -> Result<String, RouteError> {
        let table = self.view().routing(None, self.config());
        table.explain(id).map(|explanation| explanation.to_string())
    }
}
