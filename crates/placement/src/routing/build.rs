use super::{NodeAt, Retries, RoutingTable, Slot};
use crate::config::ClusterConfig;
use crate::member::{Incarnation, Membership, NodeInstance};
use crate::node_names::NameNumber;
use crate::shard_map::{RawShard, ShardMap};
use crate::sharding::Sharding;

impl RoutingTable {
    /// Builds the table of one state of the cluster. `own` is this node, or `None` for a gate.
    #[must_use]
    pub fn new(
        map: &ShardMap,
        members: &Membership,
        own: Option<&NodeInstance>,
        config: &ClusterConfig,
    ) -> Self {
        let mut nodes: Vec<_> = members.iter().map(|member| member.address().clone()).collect();
        let lives = members.iter().map(|member| member.holder.incarnation).collect();
        let mut places = Vec::new();
        for name in map.names().all() {
            places.push(name.map(|name| {
                let member = members.position(name.as_str());
                NodeAt::new(member.unwrap_or_else(|| {
                    nodes.push(name.clone());
                    nodes.len() - 1
                }))
            }));
        }
        let own = own.filter(|own| members.is_live(own.borrowed()));
        let own = own.and_then(|own| members.position(own.address.as_str())).map(NodeAt::new);
        let places = Places { places, lives, own };
        Self {
            sharding: Sharding { num_shards: map.num_shards(), ..config.sharding },
            version: map.header().version,
            members: members.len(),
            nodes,
            own,
            slots: map.raw().map(|shard| places.slot(&shard)).collect(),
            fences: map.raw().map(|shard| shard.fence).collect(),
            targets: map.raw().map(|shard| places.member(shard.target?)).collect(),
            retries: Retries {
                strict: config.strict,
                moving_ms: config.moving_retry_ms,
                idle_ms: config.shard_mapping_check_interval_ms,
            },
        }
    }
}

/// The indexes of the map's nodes in the new table.
struct Places {
    /// By the number of the name.
    places: Vec<Option<NodeAt>>,
    /// The incarnation of each member.
    lives: Vec<Incarnation>,
    own: Option<NodeAt>,
}

impl Places {
    fn slot(&self, shard: &RawShard<'_>) -> Slot {
        if let Some((name, incarnation)) = shard.holder {
            return match self.place(name) {
                Some(at) if self.life(at) != Some(incarnation) => Slot::Gone(at),
                Some(at) if self.own == Some(at) => Slot::Here,
                Some(at) => Slot::There(at),
                None => Slot::Unclaimed,
            };
        }
        // A shard with a former claim and no holder was released, so its target is about to claim
        // it.
        match shard.target.and_then(|name| self.member(name)) {
            Some(to) if shard.fence.is_some() => Slot::Moving(to),
            Some(_) | None => Slot::Unclaimed,
        }
    }

    /// The index of a name, if it is a member.
    fn member(&self, name: NameNumber) -> Option<NodeAt> {
        self.place(name).filter(|at| self.life(*at).is_some())
    }

    fn place(&self, name: NameNumber) -> Option<NodeAt> {
        self.places.get(name.index()).copied().flatten()
    }

    fn life(&self, at: NodeAt) -> Option<Incarnation> {
        self.lives.get(at.0 as usize).copied()
    }
}
