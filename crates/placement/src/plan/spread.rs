//! Balances the number of shards per node.
//!
//! A rebalance starts when the fullest and the emptiest node differ by at least two shards and by
//! more than a fraction of a node's share. It runs batch by batch until every node has its share,
//! rounded down or up.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use shardwright_contracts::LogicalTime;

use super::board::{Board, Mobility, Standing};
use super::dense::{NodeNo, PerNode, ShardNo};
use super::quota::Quota;
use super::{MoveReason, PlanNote};

/// Moves one batch. Returns whether the rebalance continues.
pub(super) fn spread(board: &mut Board<'_>, running: bool) -> bool {
    let shares = board.shares(0, |node| node.open);
    if !board.nodes.numbers().any(|node| surplus(board, &shares, node) > 0) {
        return false;
    }
    let difference = Difference::of(board, &shares);
    let stops_early = board.input.config.stop_at_threshold;
    if !difference.is_too_large() && (stops_early || !running) {
        board.notes.push(difference.note());
        return false;
    }
    let mut givers = Givers::new(board, &shares);
    let mut takers: BTreeSet<(u128, NodeNo)> = board
        .nodes
        .numbers()
        .filter(|node| deficit(board, &shares, *node) > 0)
        .map(|node| (board.nodes[node].level(), node))
        .collect();
    while board.budget.is_open_for_balance() {
        if stops_early && !Difference::of(board, &shares).is_too_large() {
            break;
        }
        let Some((level, taker)) = takers.first().copied() else { break };
        if !board.budget.may_get(taker) {
            takers.remove(&(level, taker));
            continue;
        }
        let Some((giver, shard)) = givers.next(board) else { break };
        let reason = MoveReason::Spread {
            giver_holds: whole(board.nodes[giver].has),
            giver_share: shares[giver].map_or(0, |share| whole(share.pieces)),
            taker_holds: whole(board.nodes[taker].has),
            taker_share: shares[taker].map_or(0, |share| whole(share.pieces)),
        };
        board.relocate(shard, taker, reason);
        if surplus(board, &shares, giver) > 0 {
            givers.put_back(board, giver);
        }
        takers.remove(&(level, taker));
        if deficit(board, &shares, taker) > 0 {
            takers.insert((board.nodes[taker].level(), taker));
        }
    }
    let left: u128 = board.nodes.numbers().map(|node| surplus(board, &shares, node)).sum();
    if left > 0 && !board.budget.is_open_for_balance() {
        let waiting = u32::try_from(left).unwrap_or(u32::MAX);
        board.notes.push(PlanNote::InFlightLimit { waiting });
    } else if let (1.., Some(until)) = (left, givers.cooling_until) {
        board.notes.push(PlanNote::CoolingDown { shards: givers.cooling, until });
        board.ask_again(until);
    }
    left > 0 && !stops_early
}

fn surplus(board: &Board<'_>, shares: &PerNode<Option<Quota>>, node: NodeNo) -> u128 {
    shares[node].map_or(0, |share| board.nodes[node].has.saturating_sub(share.pieces))
}

fn deficit(board: &Board<'_>, shares: &PerNode<Option<Quota>>, node: NodeNo) -> u128 {
    shares[node].map_or(0, |share| share.pieces.saturating_sub(board.nodes[node].has))
}

fn whole(pieces: u128) -> u64 {
    u64::try_from(pieces).unwrap_or(u64::MAX)
}

/// The difference of the fullest and the emptiest node, scaled to the mean weight.
struct Difference {
    shards: f64,
    begins_above: f64,
}

impl Difference {
    fn of(board: &Board<'_>, shares: &PerNode<Option<Quota>>) -> Self {
        // A node full of pins can give nothing and does not count.
        let sharing = || {
            let open = shares.iter().filter(|(_, share)| share.is_some_and(|one| !one.beyond));
            open.map(|(number, _)| &board.nodes[number])
        };
        let count = sharing().count().max(1) as f64;
        let mean_weight = sharing().map(|node| f64::from(node.weight)).sum::<f64>() / count;
        let ideal = sharing().map(|node| node.has as f64).sum::<f64>() / count;
        let level = |has: u128, weight: u32| has as f64 * mean_weight / f64::from(weight);
        let levels = || sharing().map(|node| level(node.has, node.weight));
        let fullest = levels().fold(0.0, f64::max);
        let emptiest = levels().fold(f64::INFINITY, f64::min).min(fullest);
        let begins_above = board.input.config.imbalance_threshold * ideal;
        Self { shards: fullest - emptiest, begins_above }
    }

    fn is_too_large(&self) -> bool {
        self.shards >= 2.0 && self.shards > self.begins_above
    }

    fn note(&self) -> PlanNote {
        // A difference below two shards starts no rebalance, whatever the threshold.
        let begins_above = (self.begins_above as u64).max(1);
        PlanNote::WithinThreshold { spread: self.shards as u64, begins_above }
    }
}

/// The nodes above their share, the fullest first, with the shards that they may give.
struct Givers {
    by_level: BTreeSet<(u128, Reverse<NodeNo>)>,
    shards: PerNode<VecDeque<ShardNo>>,
    /// Shards that only their cooldown keeps from moving.
    cooling: u32,
    cooling_until: Option<LogicalTime>,
}

impl Givers {
    fn new(board: &Board<'_>, shares: &PerNode<Option<Quota>>) -> Self {
        let mut givers = Self {
            by_level: BTreeSet::new(),
            shards: board.nodes.iter().map(|_| VecDeque::new()).collect(),
            cooling: 0,
            cooling_until: None,
        };
        let mut wanted: PerNode<u128> =
            board.nodes.numbers().map(|node| surplus(board, shares, node)).collect();
        for node in board.nodes.numbers().filter(|node| wanted[*node] > 0) {
            givers.put_back(board, node);
        }
        for (number, shard) in board.shards.iter() {
            let Some(target) = shard.target.filter(|node| wanted[*node] > 0) else { continue };
            match shard.standing {
                Standing::Home(Mobility::Free) => {
                    wanted[target] -= 1;
                    givers.shards[target].push_back(number);
                }
                Standing::Home(Mobility::Cooling { until }) => {
                    givers.cooling += 1;
                    let earlier = givers.cooling_until.unwrap_or(until);
                    givers.cooling_until = Some(earlier.min(until));
                }
                _ => {}
            }
        }
        givers
    }

    /// A shard of the fullest node that may give one.
    fn next(&mut self, board: &Board<'_>) -> Option<(NodeNo, ShardNo)> {
        while let Some((_, Reverse(node))) = self.by_level.pop_last() {
            if board.budget.may_give(node)
                && let Some(shard) = self.shards[node].pop_front()
            {
                return Some((node, shard));
            }
        }
        None
    }

    fn put_back(&mut self, board: &Board<'_>, node: NodeNo) {
        self.by_level.insert((board.nodes[node].level(), Reverse(node)));
    }
}
