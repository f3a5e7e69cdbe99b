use super::dense::{NodeNo, PerNode};
use crate::config::ClusterConfig;

/// How many more shards may be on their way.
pub(super) struct Budget {
    in_all: u32,
    /// Given and got.
    per_node: PerNode<u32>,
    /// Got, which is less for a node on trial. What it gives shows nothing of whether it claims.
    got: PerNode<u32>,
    /// For those that could have stayed.
    batch: u32,
}

impl Budget {
    pub(super) fn new(config: &ClusterConfig, nodes: usize) -> Self {
        let per_node: PerNode<u32> =
            std::iter::repeat_n(config.in_flight_per_node_max, nodes).collect();
        Self {
            in_all: config.in_flight_max,
            got: per_node.clone(),
            per_node,
            batch: config.batch_size(),
        }
    }

    /// Lets a node get one shard at a time.
    pub(super) fn try_out(&mut self, node: NodeNo) {
        self.got[node] = self.got[node].min(1);
    }

    /// Counts a shard that is on its way, on both sides.
    pub(super) fn occupy(&mut self, giver: Option<NodeNo>, taker: NodeNo) {
        self.in_all = self.in_all.saturating_sub(1);
        self.batch = self.batch.saturating_sub(1);
        for node in giver.into_iter().chain([taker]) {
            self.per_node[node] = self.per_node[node].saturating_sub(1);
        }
        self.got[taker] = self.got[taker].saturating_sub(1);
    }

    /// Whether any shard that must go may be sent.
    pub(super) const fn is_open(&self) -> bool {
        self.in_all > 0
    }

    /// Whether any shard that could stay may be sent.
    pub(super) const fn is_open_for_balance(&self) -> bool {
        self.in_all > 0 && self.batch > 0
    }

    /// Whether a node may give one more.
    pub(super) fn may_give(&self, node: NodeNo) -> bool {
        self.per_node[node] > 0
    }

    /// Whether a node may get one more.
    pub(super) fn may_get(&self, node: NodeNo) -> bool {
        self.per_node[node] > 0 && self.got[node] > 0
    }
}
