//! Brings pinned shards back that had to leave their node.

use super::MoveReason;
use super::board::{Board, Mobility, Standing};
use super::dense::{NodeNo, Number, ShardNo};
use crate::target::Since;

pub(super) fn bring_home(board: &mut Board<'_>) {
    for (shard, home) in away(board) {
        let giver = board.shards[shard].holder;
        let open = board.budget.is_open_for_balance()
            && giver.into_iter().chain([home]).all(|node| board.budget.is_open_at(node));
        if open {
            board.relocate(shard, home, MoveReason::PinnedHome);
        }
    }
}

/// The pinned shards whose home could have them now.
fn away(board: &Board<'_>) -> Vec<(ShardNo, NodeNo)> {
    let input = board.input;
    let mut found = Vec::new();
    for (number, raw) in board.shards.numbers().zip(input.map.raw()) {
        let shard = board.shards[number];
        let Some(home) = raw.flags.home().filter(|_| shard.pinned) else { continue };
        let Some(home) = input.members.position(home.as_str()).map(NodeNo::new) else { continue };
        let rested = match raw.since {
            Since::Moved(at) => input.now >= at.saturating_add(input.config.move_cooldown_ms),
            Since::Placed(_) | Since::Unknown => true,
        };
        if board.nodes[home].open
            && rested
            && shard.standing == Standing::Home(Mobility::Fixed)
            && shard.target != Some(home)
            && shard.holder == shard.target
        {
            found.push((number, home));
        }
    }
    found
}
