//! Deliberate defects: what a driver or an operation would do if one rule were missing.
//!
//! No operation is rewritten for it. The executor passes a changed time, lease, run or record,
//! or changes the result, just as code without the rule would behave.

use std::num::NonZeroU32;

use shardwright_contracts::{Cursor, FenceEpoch, LogicalTime};
use shardwright_coordination::{
    OpLog, RunRecord, RunState, RunStatus, ShardHead, ShardRecord, ShardStatus,
};

use crate::LOG;
use crate::bounds::Bounds;
use crate::property::Rule;
use crate::world::World;

/// One missing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// A lease is still good at its deadline.
    ExpiryOffByOne,
    /// A lease is over a moment before its deadline.
    ExpiryTooEarly,
    /// Nobody looks at fence and owner.
    FenceUnchecked,
    /// Shards are handed out although the run is paused.
    PauseIgnored,
    /// Nobody looks whether the run has ended.
    RunEndIgnored,
    /// A shard is handed out although somebody holds it.
    LeaseIgnored,
    /// The next owner gets the fence of the last one.
    GrantKeepsFence,
    /// A shard is unparked under its old fence.
    UnparkKeepsFence,
    /// The op log is not consulted.
    LogForgotten,
    /// A full op log forgets its newest entry instead of its oldest.
    NewestEvicted,
    /// Only the op log remembers a residual split.
    ResidualForgotten,
    /// A replay writes the record again.
    ReplayWrites,
    /// The first key of the right child gets lost.
    ChildrenWithGap,
    /// The new shard of a residual split is not inserted.
    ResidualNotInserted,
    /// Nobody looks at the shard's status.
    StatusUnchecked,
    /// Nobody compares the cursor with the last one.
    CursorUnchecked,
    /// Nobody looks at the tenant.
    TenantUnchecked,
    /// A run counts as done while shards of it are parked.
    ParkedCountsAsDone,
    /// A shard that has come to its end keeps its lease.
    LeaseOutlivesShard,
    /// A checkpoint moves the cursor one key further than its holder says.
    CursorAhead,
    /// A shard that has failed too often is parked although somebody holds it.
    ParksUnderHolder,
    /// A shard that has failed too often is parked although its run is paused.
    ParksInPause,
    /// A shard is parked one attempt too soon.
    ParksTooSoon,
    /// A shard that has failed too often is parked for another reason.
    ParksForNothing,
    /// A shard is handed out however often it failed.
    NeverParks,
    /// A run is said to have ended though it has not.
    RunCountsAsEnded,
    /// A run counts as unfinished though every shard of it is done.
    DoneCountsAsActive,
    /// An id that nobody has used is said to be taken.
    FreshIdTaken,
    /// A run that is resumed stays paused.
    ResumeIdle,
    /// A run that is to fail ends as cancelled.
    FailCancels,
}

impl Defect {
    /// Every one.
    pub const ALL: [Self; 30] = [
        Self::ExpiryOffByOne,
        Self::ExpiryTooEarly,
        Self::FenceUnchecked,
        Self::PauseIgnored,
        Self::RunEndIgnored,
        Self::LeaseIgnored,
        Self::GrantKeepsFence,
        Self::UnparkKeepsFence,
        Self::LogForgotten,
        Self::NewestEvicted,
        Self::ResidualForgotten,
        Self::ReplayWrites,
        Self::ChildrenWithGap,
        Self::ResidualNotInserted,
        Self::StatusUnchecked,
        Self::CursorUnchecked,
        Self::TenantUnchecked,
        Self::ParkedCountsAsDone,
        Self::LeaseOutlivesShard,
        Self::CursorAhead,
        Self::ParksUnderHolder,
        Self::ParksInPause,
        Self::ParksTooSoon,
        Self::ParksForNothing,
        Self::NeverParks,
        Self::RunCountsAsEnded,
        Self::DoneCountsAsActive,
        Self::FreshIdTaken,
        Self::ResumeIdle,
        Self::FailCancels,
    ];

    /// The world in which it shows itself within a few steps.
    #[must_use]
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::ParksUnderHolder
            | Self::ParksInPause
            | Self::ParksTooSoon
            | Self::ParksForNothing
            | Self::NeverParks => Bounds { retries: Some(2), ..Bounds::TINY },
            _ => Bounds::TINY,
        }
    }

    /// The rule that it breaks first.
    #[must_use]
    pub const fn breaks(self) -> Rule {
        match self {
            Self::ExpiryOffByOne | Self::FenceUnchecked => Rule::ZombiesRefused,
            Self::ExpiryTooEarly
            | Self::RunCountsAsEnded
            | Self::DoneCountsAsActive
            | Self::FreshIdTaken => Rule::RefusalsHaveReasons,
            Self::ParksUnderHolder
            | Self::ParksInPause
            | Self::ParksTooSoon
            | Self::ParksForNothing
            | Self::NeverParks => Rule::ParksInNeed,
            Self::ResumeIdle | Self::FailCancels => Rule::ChangesTakeEffect,
            Self::PauseIgnored => Rule::PauseHolds,
            Self::RunEndIgnored => Rule::EndedStays,
            Self::LeaseIgnored => Rule::LeaseHolds,
            Self::GrantKeepsFence => Rule::OneWriter,
            Self::UnparkKeepsFence => Rule::FencesRise,
            Self::LogForgotten | Self::NewestEvicted | Self::ResidualForgotten => Rule::OneEffect,
            Self::ReplayWrites => Rule::RefusalsChangeNothing,
            Self::ChildrenWithGap | Self::ResidualNotInserted => Rule::LeavesTile,
            Self::StatusUnchecked => Rule::TerminalStays,
            Self::CursorUnchecked | Self::CursorAhead => Rule::CursorsAdvance,
            Self::TenantUnchecked => Rule::TenantsApart,
            Self::ParkedCountsAsDone => Rule::DoneMeansDone,
            Self::LeaseOutlivesShard => Rule::RecordsSound,
        }
    }

    /// The time that an operation of a holder sees.
    pub(crate) fn time(defect: Option<Self>, now: LogicalTime) -> LogicalTime {
        match defect {
            Some(Self::ExpiryOffByOne) => LogicalTime::from_millis(now.as_millis() - 1),
            Some(Self::ExpiryTooEarly) => now.saturating_add(1),
            _ => now,
        }
    }

    /// The gate that an operation sees; `has_failed` of an attempt to have a shard that was tried
    /// too often.
    pub(crate) fn gate(defect: Option<Self>, mut gate: RunState, has_failed: bool) -> RunState {
        let max = &mut gate.config.max_shard_retries;
        match defect {
            Some(Self::ParksInPause) if has_failed => RunState { paused: false, ..gate },
            Some(Self::ParksTooSoon) => {
                *max = max.and_then(|max| NonZeroU32::new(max.get() - 1));
                gate
            }
            Some(Self::NeverParks) => {
                *max = None;
                gate
            }
            Some(Self::PauseIgnored) => RunState { paused: false, ..gate },
            Some(Self::RunEndIgnored) => RunState { status: RunStatus::Active, ..gate },
            _ => gate,
        }
    }

    /// The record that an operation sees, if it is not the true one.
    pub(crate) fn record(
        defect: Option<Self>,
        record: &ShardRecord<LOG>,
    ) -> Option<ShardRecord<LOG>> {
        let defect = defect?;
        let mut doctored = record.clone();
        let head = &mut doctored.head;
        match defect {
            Self::LogForgotten => head.op_log = OpLog::new(),
            Self::NewestEvicted if head.op_log.len() == LOG => {
                let oldest: Vec<_> = head.op_log.entries().take(LOG - 1).copied().collect();
                head.op_log = OpLog::from_entries(oldest);
            }
            Self::ResidualForgotten => head.spawned.clear(),
            Self::StatusUnchecked => revive(head),
            Self::CursorUnchecked => doctored.cursor = Cursor::initial(),
            _ => return None,
        }
        Some(doctored)
    }

    /// The record of the run that a change of it sees.
    pub(crate) fn run(defect: Option<Self>, world: &World) -> RunRecord {
        let mut run = RunRecord::clone(&world.run);
        if defect == Some(Self::RunCountsAsEnded) && !run.status.is_terminal() {
            (run.status, run.paused) = (RunStatus::Cancelled, false);
            run.completed_at = Some(world.now);
        }
        run
    }

    /// What becomes of a grant or an unpark.
    pub(crate) fn fence(
        defect: Option<Self>,
        (before, after): (FenceEpoch, FenceEpoch),
        granted: bool,
    ) -> FenceEpoch {
        match defect {
            Some(Self::GrantKeepsFence) if granted && before > FenceEpoch::INITIAL => before,
            Some(Self::UnparkKeepsFence) if !granted => before,
            _ => after,
        }
    }
}

fn revive(head: &mut ShardHead<LOG>) {
    head.status = ShardStatus::Active;
    head.park = None;
}
