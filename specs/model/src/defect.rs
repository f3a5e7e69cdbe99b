//! Planted defects: the behaviour of a driver or an operation with one rule missing.
//!
//! No operation is rewritten. The executor passes a changed time, lease, run or record, or changes
//! the result, so that the operation behaves like code without the rule.

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
    /// A lease is still valid at its deadline.
    ExpiryOffByOne,
    /// A lease expires one tick before its deadline.
    ExpiryTooEarly,
    /// Fence and owner are not checked.
    FenceUnchecked,
    /// A paused run grants leases.
    PauseIgnored,
    /// The end of the run is not checked.
    RunEndIgnored,
    /// A shard with a live lease is granted.
    LeaseIgnored,
    /// The next owner gets the fence of the previous one.
    GrantKeepsFence,
    /// A shard is unparked under its old fence.
    UnparkKeepsFence,
    /// The op log is not consulted.
    LogForgotten,
    /// A full op log evicts its newest entry instead of its oldest.
    NewestEvicted,
    /// A residual split is recognised by the op log only.
    ResidualForgotten,
    /// A replay writes the record again.
    ReplayWrites,
    /// The first key of the right child is lost.
    ChildrenWithGap,
    /// The new shard of a residual split is not inserted.
    ResidualNotInserted,
    /// The shard's status is not checked.
    StatusUnchecked,
    /// The cursor is not compared with the previous one.
    CursorUnchecked,
    /// The tenant is not checked.
    TenantUnchecked,
    /// A run with parked shards can be completed.
    ParkedCountsAsDone,
    /// A terminal shard keeps its lease.
    LeaseOutlivesShard,
    /// A checkpoint moves the cursor one key further than requested.
    CursorAhead,
    /// A shard without attempts left is parked although it has a holder.
    ParksUnderHolder,
    /// A shard without attempts left is parked although its run is paused.
    ParksInPause,
    /// A shard is parked one attempt too early.
    ParksTooSoon,
    /// A shard without attempts left is parked with another reason.
    ParksWithWrongReason,
    /// The number of attempts is unlimited.
    NeverParks,
    /// An active run counts as ended.
    RunCountsAsEnded,
    /// A run with all shards done counts as unfinished.
    DoneCountsAsActive,
    /// An unused operation id counts as used.
    FreshIdTaken,
    /// Resume has no effect.
    ResumeHasNoEffect,
    /// Fail ends the run as cancelled.
    FailCancels,
}

impl Defect {
    /// All defects.
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
        Self::ParksWithWrongReason,
        Self::NeverParks,
        Self::RunCountsAsEnded,
        Self::DoneCountsAsActive,
        Self::FreshIdTaken,
        Self::ResumeHasNoEffect,
        Self::FailCancels,
    ];

    /// The bounds in which it shows within a few steps.
    #[must_use]
    pub const fn bounds(self) -> Bounds {
        match self {
            Self::ParksUnderHolder
            | Self::ParksInPause
            | Self::ParksTooSoon
            | Self::ParksWithWrongReason
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
            | Self::ParksWithWrongReason
            | Self::NeverParks => Rule::ParksWhenExhausted,
            Self::ResumeHasNoEffect | Self::FailCancels => Rule::ChangesTakeEffect,
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

    /// The state of the run that an operation sees. `is_exhausted` is set for an acquire of a shard
    /// without attempts left.
    pub(crate) fn run_state(
        defect: Option<Self>,
        mut run_state: RunState,
        is_exhausted: bool,
    ) -> RunState {
        let max = &mut run_state.config.max_shard_retries;
        match defect {
            Some(Self::ParksInPause) if is_exhausted => RunState { paused: false, ..run_state },
            Some(Self::ParksTooSoon) => {
                *max = max.and_then(|max| NonZeroU32::new(max.get() - 1));
                run_state
            }
            Some(Self::NeverParks) => {
                *max = None;
                run_state
            }
            Some(Self::PauseIgnored) => RunState { paused: false, ..run_state },
            Some(Self::RunEndIgnored) => RunState { status: RunStatus::Active, ..run_state },
            _ => run_state,
        }
    }

    /// The record that an operation sees, if it differs from the real one.
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
            Self::StatusUnchecked => reactivate(head),
            Self::CursorUnchecked => doctored.cursor = Cursor::initial(),
            _ => return None,
        }
        Some(doctored)
    }

    /// The record of the run that a change sees.
    pub(crate) fn run(defect: Option<Self>, world: &World) -> RunRecord {
        let mut run = RunRecord::clone(&world.run);
        if defect == Some(Self::RunCountsAsEnded) && !run.status.is_terminal() {
            (run.status, run.paused) = (RunStatus::Cancelled, false);
            run.completed_at = Some(world.now);
        }
        run
    }

    /// The fence after a grant or an unpark.
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

fn reactivate(head: &mut ShardHead<LOG>) {
    head.status = ShardStatus::Active;
    head.park = None;
}
