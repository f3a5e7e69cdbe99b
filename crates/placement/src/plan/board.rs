//! The planner's view of nodes and shards, with its decisions so far.

use shardwright_contracts::LogicalTime;

use super::dense::{NodeNo, PerNode, PerShard, ShardNo};
use super::quota::Costs;
use super::quota::{Portion, Quota, quotas};
use super::{Move, MoveReason, PlanInput, PlanNote};
use crate::address::NodeAddress;
use crate::config::ClusterConfig;

pub(super) struct Board<'a> {
    pub(super) input: &'a PlanInput<'a>,
    pub(super) nodes: PerNode<Node<'a>>,
    pub(super) shards: PerShard<Shard>,
    pub(super) costs: Costs,
    pub(super) budget: Budget,
    pub(super) moves: Vec<Move>,
    pub(super) notes: Vec<PlanNote>,
    pub(super) ask_again_at: Option<LogicalTime>,
}

pub(super) struct Node<'a> {
    pub(super) address: &'a NodeAddress,
    pub(super) weight: u32,
    /// Whether it may get shards. A node that is draining or does not claim may not.
    pub(super) open: bool,
    /// Whether it has yet to prove that it claims.
    pub(super) on_trial: bool,
    /// The cost of its shards, without those that must leave.
    pub(super) has: u128,
    /// The part of it that cannot move.
    pub(super) fixed: u128,
}

impl Node<'_> {
    /// How full it is for its weight. Only the order matters.
    pub(super) fn level(&self) -> u128 {
        (self.has << 32) / u128::from(self.weight)
    }
}

#[derive(Clone, Copy)]
pub(super) struct Shard {
    pub(super) target: Option<NodeNo>,
    /// The member that holds it.
    pub(super) holder: Option<NodeNo>,
    pub(super) pinned: bool,
    /// How long its target has not claimed it, if that is too long.
    pub(super) late_ms: Option<u64>,
    pub(super) standing: Standing,
    /// The node that counts as its owner for balance: its target, or the home that it returns to.
    pub(super) counts_at: Option<NodeNo>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has no target.
    Unplaced,
    /// Its target is not a member.
    Gone,
    /// Its target is draining.
    Draining,
    /// Its target has not claimed it for this long.
    NotClaimed { for_ms: u64 },
    /// It is pinned to a node that cannot hold it, and waits.
    Waiting,
    /// Its target or its claim is unreadable, so it does not move.
    Unreadable,
    /// Its target can hold it.
    Home(Mobility),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mobility {
    Free,
    /// It is pinned, or too heavy for any node.
    Fixed,
    /// It is moving already.
    InFlight,
    /// It is in its move cooldown.
    Cooling {
        until: LogicalTime,
    },
}

impl Standing {
    /// A shard that its target has not claimed yet.
    pub(super) const fn unclaimed(pinned: bool) -> Self {
        Self::Home(if pinned { Mobility::Fixed } else { Mobility::InFlight })
    }
}

impl Board<'_> {
    /// Gives a shard another target.
    pub(super) fn relocate(&mut self, shard: ShardNo, to: NodeNo, reason: MoveReason) {
        let before = self.shards[shard];
        let cost = self.costs.of(shard);
        let fixed = if before.pinned { cost } else { 0 };
        if let Some(from) = before.counts_at {
            self.nodes[from].has -= cost;
            self.nodes[from].fixed -= fixed;
        }
        self.nodes[to].has += cost;
        self.nodes[to].fixed += fixed;
        if before.holder != Some(to) && reason != MoveReason::FirstPlacement {
            self.budget.occupy(before.holder, to);
        }
        let standing = Standing::unclaimed(before.pinned);
        self.shards[shard] = Shard { target: Some(to), counts_at: Some(to), standing, ..before };
        let from = self.input.map.info(shard.id()).ok().and_then(|info| info.target.cloned());
        let to = self.nodes[to].address.clone();
        self.moves.push(Move { shard: shard.id(), from, to, reason });
    }

    /// The share of each node, of what all have plus `homeless`.
    pub(super) fn shares(
        &self,
        homeless: u128,
        is_sharing: impl Fn(&Node<'_>) -> bool,
    ) -> PerNode<Option<Quota>> {
        let sharing = self.nodes.iter().filter(|(_, node)| is_sharing(node));
        let portions: Vec<Portion> = sharing
            .map(|(_, node)| Portion { weight: node.weight, has: node.has, fixed: node.fixed })
            .collect();
        let total = homeless + portions.iter().map(|portion| portion.has).sum::<u128>();
        let mut found = quotas(&portions, total).into_iter();
        let mut share = |node| if is_sharing(node) { found.next() } else { None };
        self.nodes.iter().map(|(_, node)| share(node)).collect()
    }

    /// The number of shards without a target.
    pub(super) fn unplaced(&self) -> u32 {
        let unplaced = |shard: &Shard| u32::from(shard.standing == Standing::Unplaced);
        self.shards.iter().map(|(_, shard)| unplaced(shard)).sum()
    }

    /// Records the time of the next useful plan.
    pub(super) fn ask_again(&mut self, at: LogicalTime) {
        self.ask_again_at = Some(self.ask_again_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// How many more shards may be in flight.
pub(super) struct Budget {
    in_all: u32,
    /// Given and received.
    per_node: PerNode<u32>,
    /// Received. A node on trial may receive less. What it gives proves nothing about claiming.
    got: PerNode<u32>,
    /// For voluntary moves.
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

    /// Limits a node to one received shard.
    pub(super) fn limit_to_one(&mut self, node: NodeNo) {
        self.got[node] = self.got[node].min(1);
    }

    /// Counts a shard in flight on both sides.
    pub(super) fn occupy(&mut self, giver: Option<NodeNo>, taker: NodeNo) {
        self.in_all = self.in_all.saturating_sub(1);
        self.batch = self.batch.saturating_sub(1);
        for node in giver.into_iter().chain([taker]) {
            self.per_node[node] = self.per_node[node].saturating_sub(1);
        }
        self.got[taker] = self.got[taker].saturating_sub(1);
    }

    /// Whether another forced move is allowed.
    pub(super) const fn is_open(&self) -> bool {
        self.in_all > 0
    }

    /// Whether another voluntary move is allowed.
    pub(super) const fn is_open_for_balance(&self) -> bool {
        self.in_all > 0 && self.batch > 0
    }

    /// Whether a node may give another shard.
    pub(super) fn may_give(&self, node: NodeNo) -> bool {
        self.per_node[node] > 0
    }

    /// Whether a node may receive another shard.
    pub(super) fn may_get(&self, node: NodeNo) -> bool {
        self.per_node[node] > 0 && self.got[node] > 0
    }
}
