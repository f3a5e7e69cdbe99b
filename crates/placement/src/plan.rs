//! Decides where shards should be.
//!
//! [`plan`] is a function of what it is given: equal input gives an equal plan, and a
//! change of leaders moves nothing. It goes through the same steps each time:
//!
//! 1. Below the quorum nothing is decided at all.
//! 2. Shards that must go find a node: the target is gone, is draining, or does not claim.
//! 3. Shards that never had a target get one, round robin over the nodes by address, once the same
//!    nodes have been members for a while.
//! 4. Pinned shards that had to leave go home.
//! 5. Shards are spread evenly, or the load is where loads are given.
//!
//! Steps 4 and 5 wait for the same guard, stop at a freeze, move a batch at a time, leave alone
//! what was moved a moment ago, and begin only when every shard has a node. All but first placement
//! keeps within the limits of how many shards may be on their way, per node and in all.

mod board;
mod dense;
mod place;
mod quota;
mod reason;
mod shed;
mod spread;
mod survey;

use shardwright_contracts::LogicalTime;

pub use self::reason::{Move, MoveReason, PlanNote};
use crate::config::ClusterConfig;
use crate::flags::Flags;
use crate::member::Membership;
use crate::observations::LeaderObservations;
use crate::shard_map::ShardMap;
use crate::target::{Target, TargetChange, TargetHeader, TargetSince, TargetUpdate};

/// All that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// Where shards should be and are so far.
    pub map: &'a ShardMap,
    /// Which nodes are there, and since when they are the same.
    pub members: &'a Membership,
    /// What each shard bears, by its number and in any unit; what is missing bears nothing. Without
    /// loads, shards count alike and are spread evenly.
    pub loads: Option<&'a [u64]>,
    /// How the cluster behaves.
    pub config: &'a ClusterConfig,
    /// What time it is.
    pub now: LogicalTime,
    /// What the leader has observed itself.
    pub observations: &'a LeaderObservations,
}

/// What should change, and what should not and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The shards that get another target, each once.
    pub moves: Vec<Move>,
    /// What was not done.
    pub notes: Vec<PlanNote>,
    /// Whether a rebalance has begun that goes on.
    pub spreading: bool,
    /// Whether load is being moved and more waits.
    pub shedding: bool,
    /// When the same question may have another answer, though nothing else changed.
    pub ask_again_at: Option<LogicalTime>,
}

/// Decides where shards should be.
#[must_use]
pub fn plan(input: &PlanInput<'_>) -> Plan {
    let header = input.map.header();
    let mut plan = Plan {
        moves: Vec::new(),
        notes: Vec::new(),
        spreading: header.spreading,
        shedding: header.shedding,
        ask_again_at: None,
    };
    let (members, needed) = (input.members.len(), input.config.min_quorum);
    if members < needed {
        plan.notes.push(PlanNote::BelowQuorum { members, needed });
        return plan;
    }
    if input.members.iter().all(|member| member.draining) {
        plan.notes.push(PlanNote::NoNode);
        return plan;
    }
    let mut board = survey::survey(input);
    let guard_ends = survey::guard_ends(input);
    let guarded = input.now < guard_ends;
    let waiting = place::place(&mut board, guarded);
    if guarded {
        let unplaced = board.unplaced();
        board.notes.push(PlanNote::Guarded { until: guard_ends, unplaced });
        board.ask_again(guard_ends);
    } else if header.frozen {
        board.notes.push(PlanNote::Frozen);
    } else if !waiting {
        place::bring_home(&mut board);
        let by_load = board.costs.are_loads();
        plan.shedding = by_load && shed::shed(&mut board, header.shedding);
        plan.spreading = !by_load && spread::spread(&mut board, header.spreading);
    }
    Plan { moves: board.moves, notes: board.notes, ask_again_at: board.ask_again_at, ..plan }
}

impl Plan {
    /// What the leader writes for it, if that is anything.
    #[must_use]
    pub fn update(&self, map: &ShardMap, now: LogicalTime) -> Option<TargetUpdate> {
        let before = map.header();
        let (spreading, shedding) = (self.spreading, self.shedding);
        let header = TargetHeader { spreading, shedding, ..before };
        if self.moves.is_empty() && header == before {
            return None;
        }
        let changes = self.moves.iter().map(|one| change(map, one, now)).collect();
        let header = TargetHeader { version: before.version.next(), ..header };
        Some(TargetUpdate { header, changes })
    }
}

fn change(map: &ShardMap, moved: &Move, now: LogicalTime) -> TargetChange {
    let before = map.info(moved.shard).ok();
    let flags = before.map_or_else(Flags::default, |info| info.flags.clone());
    let flags = match &moved.from {
        _ if !flags.is_pinned() => flags,
        _ if flags.home() == Some(&moved.to) => flags.without_home(),
        Some(from) if flags.home().is_none() => flags.away_from(from),
        _ => flags,
    };
    let since = match moved.reason {
        MoveReason::FirstPlacement => TargetSince::Placed(now),
        _ => TargetSince::Moved(now),
    };
    let target = Target { node: Some(moved.to.clone()), flags, since };
    TargetChange { shard: moved.shard, target }
}
