//! Balances the loads of nodes, where the loads of shards are known.
//!
//! It starts when a node is far from its share and runs until all are near theirs. Each move takes
//! the shard of the fullest node that brings it and the emptiest node nearest to their shares. A
//! move must make the fuller of the two less full.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::LogicalTime;

use super::board::{Board, Mobility, Standing};
use super::dense::{NodeNo, PerNode, ShardNo};
use super::quota::Quota;
use super::{MoveReason, PlanNote};

/// Moves one batch. Returns whether more moves wait.
pub(super) fn shed(board: &mut Board<'_>, running: bool) -> bool {
    let bands = board.input.config.load;
    let mut scales = Scales::new(board);
    if scales.is_within(if running { bands.stop } else { bands.start }) {
        return false;
    }
    let mut stock = Stock::new(board);
    let mut held_up = false;
    while !scales.is_within(bands.stop) {
        let (Some(giver), Some(taker)) = (scales.fullest(), scales.emptiest()) else { break };
        // The rest may be out of reach while both nodes are within the band.
        let idle = scales.ratio(giver) <= bands.stop && scales.ratio(taker) >= 2.0 - bands.stop;
        if idle || giver == taker {
            break;
        }
        if !board.budget.is_open_for_balance() {
            held_up = true;
            break;
        }
        if !board.budget.may_get(taker) {
            held_up = true;
            scales.drop_taker(taker);
            continue;
        }
        if !board.budget.may_give(giver) {
            held_up = true;
            scales.drop_giver(giver);
            continue;
        }
        let Some(shard) = stock.choose(board, &scales, giver, taker) else {
            scales.drop_giver(giver);
            continue;
        };
        let reason = MoveReason::Load {
            giver_percent: percent(scales.ratio(giver)),
            taker_percent: percent(scales.ratio(taker)),
        };
        stock.remove(board, giver, shard);
        board.relocate(shard, taker, reason);
        scales.weigh(board, giver);
        scales.weigh(board, taker);
    }
    if scales.is_within(bands.stop) {
        return false;
    }
    if let Some(until) = stock.cooling_until.filter(|_| !held_up) {
        board.notes.push(PlanNote::CoolingDown { shards: stock.cooling, until });
        board.ask_again(until);
        return true;
    }
    // A difference that waiting cannot reduce does not keep the rebalance running.
    held_up
}

fn percent(ratio: f64) -> u32 {
    (ratio * 100.0).round() as u32
}

/// The loads of nodes as multiples of their shares. Nodes full of fixed shards are left out.
struct Scales {
    shares: PerNode<Option<Quota>>,
    ratios: PerNode<f64>,
    on: BTreeSet<(OrderedRatio, NodeNo)>,
    givers: BTreeSet<(OrderedRatio, std::cmp::Reverse<NodeNo>)>,
    takers: BTreeSet<(OrderedRatio, NodeNo)>,
}

/// The bits of a non-negative float sort like the float.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OrderedRatio(u64);

impl Scales {
    fn new(board: &Board<'_>) -> Self {
        let mut scales = Self {
            shares: board.shares(0, |node| node.open),
            ratios: board.nodes.iter().map(|_| 1.0).collect(),
            on: BTreeSet::new(),
            givers: BTreeSet::new(),
            takers: BTreeSet::new(),
        };
        for node in board.nodes.numbers() {
            let Some(share) = scales.shares[node] else { continue };
            let ratio = board.nodes[node].has as f64 / (share.pieces.max(1)) as f64;
            scales.ratios[node] = ratio;
            let ordered = OrderedRatio(ratio.to_bits());
            // Such a node gives what it can and may keep the rest.
            if !share.beyond {
                scales.on.insert((ordered, node));
                scales.takers.insert((ordered, node));
            }
            scales.givers.insert((ordered, std::cmp::Reverse(node)));
        }
        scales
    }

    fn ratio(&self, node: NodeNo) -> f64 {
        self.ratios[node]
    }

    /// Whether no node is further from its share than `band`.
    fn is_within(&self, band: f64) -> bool {
        let ratio = |entry: Option<&(OrderedRatio, NodeNo)>| {
            entry.map_or(1.0, |(_, node)| self.ratios[*node])
        };
        ratio(self.on.last()) <= band && ratio(self.on.first()) >= 2.0 - band
    }

    fn fullest(&self) -> Option<NodeNo> {
        self.givers.last().map(|(_, node)| node.0)
    }

    fn emptiest(&self) -> Option<NodeNo> {
        self.takers.first().map(|(_, node)| *node)
    }

    fn drop_giver(&mut self, node: NodeNo) {
        self.givers.remove(&(self.ordered(node), std::cmp::Reverse(node)));
    }

    fn drop_taker(&mut self, node: NodeNo) {
        self.takers.remove(&(self.ordered(node), node));
    }

    /// Updates the ratio of a node.
    fn weigh(&mut self, board: &Board<'_>, node: NodeNo) {
        let before = self.ordered(node);
        let share = self.shares[node].map_or(1, |share| share.pieces.max(1));
        self.ratios[node] = board.nodes[node].has as f64 / share as f64;
        let after = self.ordered(node);
        if self.on.remove(&(before, node)) {
            self.on.insert((after, node));
        }
        if self.givers.remove(&(before, std::cmp::Reverse(node))) {
            self.givers.insert((after, std::cmp::Reverse(node)));
        }
        if self.takers.remove(&(before, node)) {
            self.takers.insert((after, node));
        }
    }

    fn ordered(&self, node: NodeNo) -> OrderedRatio {
        OrderedRatio(self.ratios[node].to_bits())
    }
}

/// The shards that nodes could give, by cost. Filled when a node has to give one.
struct Stock {
    shards: PerNode<Vec<ShardNo>>,
    sorted: BTreeMap<NodeNo, BTreeSet<(u128, ShardNo)>>,
    cooling: u32,
    cooling_until: Option<LogicalTime>,
}

impl Stock {
    fn new(board: &Board<'_>) -> Self {
        let mut stock = Self {
            shards: board.nodes.iter().map(|_| Vec::new()).collect(),
            sorted: BTreeMap::new(),
            cooling: 0,
            cooling_until: None,
        };
        for (number, shard) in board.shards.iter() {
            match (shard.standing, shard.target) {
                (Standing::Home(Mobility::Free), Some(target)) => {
                    stock.shards[target].push(number);
                }
                (Standing::Home(Mobility::Cooling { until }), _) => {
                    stock.cooling += 1;
                    let earlier = stock.cooling_until.unwrap_or(until);
                    stock.cooling_until = Some(earlier.min(until));
                }
                _ => {}
            }
        }
        stock
    }

    /// The giver's shard that is nearest to the amount to move, if it helps.
    fn choose(
        &mut self,
        board: &Board<'_>,
        scales: &Scales,
        giver: NodeNo,
        taker: NodeNo,
    ) -> Option<ShardNo> {
        let share = |node: NodeNo| scales.shares[node].map_or(0, |share| share.pieces);
        let excess = board.nodes[giver].has.saturating_sub(share(giver));
        let room = share(taker).saturating_sub(board.nodes[taker].has);
        let wanted = excess.min(room);
        let sorted = self.sorted_of(board, giver);
        let below = sorted.range(..(wanted + 1, ShardNo::FIRST)).next_back();
        let above = sorted.range((wanted + 1, ShardNo::FIRST)..).next();
        let helps = |(cost, _): &&(u128, ShardNo)| {
            let (from, to) = (&board.nodes[giver], &board.nodes[taker]);
            (to.has + cost) * u128::from(from.weight) < from.has * u128::from(to.weight)
        };
        below.filter(helps).or(above.filter(helps)).map(|(_, shard)| *shard)
    }

    fn remove(&mut self, board: &Board<'_>, node: NodeNo, shard: ShardNo) {
        self.sorted_of(board, node).remove(&(board.costs.of(shard), shard));
    }

    fn sorted_of(&mut self, board: &Board<'_>, node: NodeNo) -> &mut BTreeSet<(u128, ShardNo)> {
        let shards = &self.shards[node];
        self.sorted.entry(node).or_insert_with(|| {
            shards.iter().map(|shard| (board.costs.of(*shard), *shard)).collect()
        })
    }
}
