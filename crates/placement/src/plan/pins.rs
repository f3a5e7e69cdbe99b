//! Brings pinned shards back that had to leave their node.

use shardwright_contracts::LogicalTime;

use super::board::{Board, Mobility, Standing};
use super::dense::{NodeNo, Number, ShardNo};
use super::{MoveReason, Note, times};

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
        board.notes.push(Note::CoolingDown { shards: cooling, until });
        board.ask_again(until);
    }
}

/// The pinned shards whose home could have them now, and until when they stay where they are.
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
            // One that nobody has need not arrive first where it should be meanwhile.
            && (shard.holder == shard.target || shard.holder.is_none())
        {
            found.push((number, home, times::cooling_until(board.input, &raw)));
        }
    }
    found
}
