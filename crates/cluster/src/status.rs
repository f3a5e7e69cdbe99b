//! What can be said about a cluster.

use shardwright_contracts::LogicalTime;
use shardwright_placement::{
    ClusterConfig, DrainProgress, LeaderObservations, Member, NodeAddress, NodeInstance, Plan,
    PlanInput, Readiness, RouteError, Sharding, TargetChunks, TargetHeader, plan,
};
use shardwright_store::Revision;

use super::handle::Cluster;
use super::state::quarantined;
use super::unreadable::Quarantined;

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
    /// TargetSince when the same nodes are members, as far as this process knows.
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
