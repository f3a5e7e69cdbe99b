//! Plans the targets of shards.
//!
//! [`plan`] is a pure function: equal input gives an equal plan, and a change of leaders moves
//! nothing. Its steps:
//!
//! 1. Below the quorum nothing is planned.
//! 2. Forced moves: the target is gone, is draining, or does not claim.
//! 3. First placement, round robin over the nodes by address, once the membership is stable.
//! 4. Pinned shards that had to leave return home.
//! 5. Rebalancing: shards are spread evenly, or loads are balanced where they are known.
//!
//! Steps 4 and 5 wait for a stable membership, stop at a freeze, move one batch at a time, skip
//! shards in their cooldown, and start only when every shard has a node. All steps but the first
//! placement respect the limits of shards in flight, per node and in total.

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

/// Everything that a plan depends on.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The current targets and claims.
    pub map: &'a ShardMap,
    /// The members.
    pub members: &'a Membership,
    /// The load of each shard, by its number and in any unit. Missing entries are zero. Without
    /// loads all shards count the same and are spread evenly.
    pub loads: Option<&'a [u64]>,
    /// The configuration.
    pub config: &'a ClusterConfig,
    /// The current time.
    pub now: LogicalTime,
    /// The leader's own observations.
    pub observations: &'a LeaderObservations,
}

/// The planned moves, and the reasons for moves that were not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The shards that get another target, each once.
    pub moves: Vec<Move>,
    /// What was not done, and why.
    pub notes: Vec<PlanNote>,
    /// Whether a rebalance by number is in progress.
    pub spreading: bool,
    /// Whether a rebalance by load is in progress.
    pub shedding: bool,
    /// When the plan may change without any other change.
    pub ask_again_at: Option<LogicalTime>,
}

/// Plans the targets of shards.
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
    /// The update that the leader writes for the plan, if it changes something.
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
