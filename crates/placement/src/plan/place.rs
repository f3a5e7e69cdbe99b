//! Places shards that have no node or must leave it, and returns pinned shards to their nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use shardwright_contracts::LogicalTime;

use super::board::{Board, Mobility, Node, Shard, Standing};
use super::dense::{NodeNo, Number, PerNode, ShardNo};
use super::quota::Quota;
use super::{MoveReason, PlanNote, survey};

/// Makes forced moves and first placements. Returns whether a forced move has to wait.
pub(super) fn place(board: &mut Board<'_>, guarded: bool) -> bool {
    keep_where_served(board);
    let (urgent, unplaced) = homeless(board);
    let mut takers = Takers::new(board);
    let mut waiting = 0;
    for (shard, reason) in urgent {
        if !send(board, &mut takers, shard, reason) {
            waiting += 1;
        }
    }
    if waiting > 0 {
        board.notes.push(PlanNote::InFlightLimit { waiting });
    }
    if !guarded {
        place_first(board, unplaced);
    }
    waiting > 0
}

/// No node loses a shard and no call goes to these shards yet, so no limit applies.
fn place_first(board: &mut Board<'_>, unplaced: Homeless) {
    let mut takers = Takers::new(board);
    for (shard, reason) in unplaced {
        if let Some(to) = takers.next(board, board.costs.of(shard), |_| true) {
            board.relocate(shard, to, reason);
            takers.put_back(board, to);
        }
    }
}

/// A shard that an available node serves stays there.
fn keep_where_served(board: &mut Board<'_>) {
    for number in board.shards.numbers() {
        let shard = board.shards[number];
        let orphaned =
            matches!(shard.standing, Standing::Unplaced | Standing::Gone | Standing::Draining);
        if let Some(holder) = shard.holder
            && orphaned
            && board.nodes[holder].open
        {
            board.relocate(number, holder, MoveReason::StillServed);
        }
    }
}

type Homeless = Vec<(ShardNo, MoveReason)>;

/// The shards that need a node: those that had one, in order of urgency, and those without a
/// target. The heaviest come first, while there is most choice.
fn homeless(board: &Board<'_>) -> (Homeless, Homeless) {
    let (mut urgent, mut unplaced) = (Vec::new(), Vec::new());
    for (number, shard) in board.shards.iter() {
        let (rank, reason) = match shard.standing {
            Standing::Gone => (0, MoveReason::NodeGone),
            Standing::Draining => (1, MoveReason::NodeDraining),
            Standing::NotClaimed { for_ms } => (2, MoveReason::NotClaimed { for_ms }),
            Standing::Unplaced => {
                unplaced.push((number, MoveReason::FirstPlacement));
                continue;
            }
            Standing::Waiting | Standing::Unreadable | Standing::Home(_) => continue,
        };
        urgent.push((rank, (number, reason)));
    }
    let heavy = |shard: ShardNo| Reverse(board.costs.of(shard));
    urgent.sort_by_key(|(rank, (shard, _))| (*rank, heavy(*shard), *shard));
    unplaced.sort_by_key(|(shard, _)| (heavy(*shard), *shard));
    (urgent.into_iter().map(|(_, shard)| shard).collect(), unplaced)
}

fn send(board: &mut Board<'_>, takers: &mut Takers, shard: ShardNo, reason: MoveReason) -> bool {
    let giver = board.shards[shard].holder;
    if !board.budget.is_open() || giver.is_some_and(|giver| !board.budget.may_give(giver)) {
        return false;
    }
    let cost = board.costs.of(shard);
    let Some(to) = takers.next(board, cost, |node| board.budget.may_get(node)) else {
        return false;
    };
    board.relocate(shard, to, reason);
    takers.put_back(board, to);
    true
}

/// The nodes that may receive shards, the emptiest first, then by address.
///
/// A node on trial is left out while there are others: shards that it does not claim would have no
/// holder. It gets its trial shard from rebalancing.
struct Takers {
    shares: PerNode<Option<Quota>>,
    by_level: BinaryHeap<Reverse<(u128, NodeNo)>>,
}

impl Takers {
    fn new(board: &Board<'_>) -> Self {
        let homes = |shard: &Shard| {
            matches!(shard.standing, Standing::Home(_) | Standing::Waiting | Standing::Unreadable)
        };
        let homeless = board.shards.iter().filter(|(_, shard)| !homes(shard));
        let homeless = homeless.map(|(number, _)| board.costs.of(number)).sum();
        let is_trusted = |node: &Node<'_>| node.open && !node.on_trial;
        let some_are_trusted = board.nodes.iter().any(|(_, node)| is_trusted(node));
        let takes = |node: &Node<'_>| if some_are_trusted { is_trusted(node) } else { node.open };
        let takers = board.nodes.iter().filter(|(_, node)| takes(node));
        let by_level = takers.map(|(number, node)| Reverse((node.level(), number))).collect();
        Self { shares: board.shares(homeless, takes), by_level }
    }

    /// Removes and returns the emptiest node that has room and is allowed.
    fn next(
        &mut self,
        board: &Board<'_>,
        cost: u128,
        allowed: impl Fn(NodeNo) -> bool,
    ) -> Option<NodeNo> {
        while let Some(Reverse((_, node))) = self.by_level.pop() {
            // Loads are not divisible: the emptiest node takes the whole shard.
            let has_room = board.costs.are_loads()
                || self.shares[node].is_some_and(|one| board.nodes[node].has + cost <= one.pieces);
            if has_room && allowed(node) {
                return Some(node);
            }
        }
        None
    }

    fn put_back(&mut self, board: &Board<'_>, node: NodeNo) {
        self.by_level.push(Reverse((board.nodes[node].level(), node)));
    }
}

/// Returns pinned shards to their homes.
pub(super) fn bring_home(board: &mut Board<'_>) {
    let mut cooling = 0;
    let mut cooling_until = None;
    for (shard, home, stays_until) in away(board) {
        if let Some(until) = stays_until {
            cooling += 1;
            cooling_until = Some(cooling_until.map_or(until, |earlier| until.min(earlier)));
            continue;
        }
        let giver = board.shards[shard].holder;
        let open = board.budget.is_open_for_balance()
            && giver.is_none_or(|giver| board.budget.may_give(giver))
            && board.budget.may_get(home);
        if open {
            board.relocate(shard, home, MoveReason::PinnedHome);
        }
    }
    if let Some(until) = cooling_until {
        board.notes.push(PlanNote::CoolingDown { shards: cooling, until });
        board.ask_again(until);
    }
}

/// The pinned shards whose home can hold them now, and the end of their cooldown.
fn away(board: &Board<'_>) -> Vec<(ShardNo, NodeNo, Option<LogicalTime>)> {
    let members = board.input.members;
    let mut found = Vec::new();
    for (number, raw) in board.shards.numbers().zip(board.input.map.raw()) {
        let shard = board.shards[number];
        let Some(home) = raw.flags.home().filter(|_| shard.pinned) else { continue };
        let Some(home) = members.position(home.as_str()).map(NodeNo::new) else { continue };
        if board.nodes[home].open
            && shard.standing == Standing::Home(Mobility::Fixed)
            && shard.target != Some(home)
            // A shard without a holder need not arrive at its interim target first.
            && (shard.holder == shard.target || shard.holder.is_none())
        {
            found.push((number, home, survey::cooling_until(board.input, &raw)));
        }
    }
    found
}
