//! What the planner knows of nodes and shards, and what it has decided so far.

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
    /// Whether it may get shards. One that is draining, or does not claim what it got, may not.
    pub(super) open: bool,
    /// Whether it has still to show that it claims what it gets.
    pub(super) on_trial: bool,
    /// What the shards that count here cost, without those that cannot stay.
    pub(super) has: u128,
    /// What of that may not be moved.
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
    /// The member that has claimed it.
    pub(super) holder: Option<NodeNo>,
    pub(super) pinned: bool,
    /// For how long its target has not got it, if that is too long.
    pub(super) late_ms: Option<u64>,
    pub(super) standing: Standing,
    /// The node that has it for the purposes of balance, if one does: its target, or the home that
    /// it will go back to.
    pub(super) counts_at: Option<NodeNo>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It never had a target, or lost it.
    Unplaced,
    /// Its target is no member.
    Gone,
    /// Its target is draining.
    Draining,
    /// Its target has not claimed it for this long.
    NotClaimed { for_ms: u64 },
    /// It is pinned to a node that cannot have it, and waits.
    Waiting,
    /// Its target or its claim is unreadable, and it is left alone.
    Unreadable,
    /// Its target can have it.
    Home(Mobility),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mobility {
    Free,
    /// It is pinned, or no node could bear it.
    Fixed,
    /// It is on its way already.
    InFlight,
    /// It was moved a moment ago.
    Cooling {
        until: LogicalTime,
    },
}

impl Standing {
    /// That of a shard that its target has not got yet.
    pub(super) const fn on_its_way(pinned: bool) -> Self {
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
        let standing = Standing::on_its_way(before.pinned);
        self.shards[shard] = Shard { target: Some(to), counts_at: Some(to), standing, ..before };
        let from = self.input.map.info(shard.id()).ok().and_then(|info| info.target.cloned());
        let to = self.nodes[to].address.clone();
        self.moves.push(Move { shard: shard.id(), from, to, reason });
    }

    /// What each node that shares should have of all that these have and `homeless` besides.
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

    /// How many shards have no target.
    pub(super) fn unplaced(&self) -> u32 {
        let unplaced = |shard: &Shard| u32::from(shard.standing == Standing::Unplaced);
        self.shards.iter().map(|(_, shard)| unplaced(shard)).sum()
    }

    /// Remembers when it is worth asking again.
    pub(super) fn ask_again(&mut self, at: LogicalTime) {
        self.ask_again_at = Some(self.ask_again_at.map_or(at, |earlier| earlier.min(at)));
    }
}

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
