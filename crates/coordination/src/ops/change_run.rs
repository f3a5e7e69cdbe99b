use shardwright_contracts::{LogicalTime, OpId};

use super::RunCall;
use crate::error::RunTransitionError;
use crate::error::reason::{RunTerminal, WrongStatus};
use crate::events::{EventCollector, EventKind};
use crate::guard::check_tenant_of;
use crate::op_log::{IdempotentOutcome, OpKind, check_op_idempotency};
use crate::operation::RunTransition;
use crate::payload;
use crate::progress::{RunProgress, RunTerminalEvaluation, evaluate_run_terminal};
use crate::record::RunRecord;
use crate::status::RunStatus;

/// A change of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange<'a> {
    /// End it as done. Every shard must be done or split.
    Complete(&'a RunProgress),
    /// End it as failed.
    Fail,
    /// End it as cancelled, even before it has shards.
    Cancel,
    /// Stop granting shards.
    Pause,
    /// Grant shards again.
    Resume,
}

impl<'a> RunChange<'a> {
    /// The requested transition, with the run's progress if it needs it.
    #[must_use]
    pub const fn of(transition: RunTransition, progress: &'a RunProgress) -> Self {
        match transition {
            RunTransition::Complete => Self::Complete(progress),
            RunTransition::Fail => Self::Fail,
            RunTransition::Cancel => Self::Cancel,
            RunTransition::Pause => Self::Pause,
            RunTransition::Resume => Self::Resume,
        }
    }

    const fn kind(self) -> OpKind {
        match self {
            Self::Complete(_) => OpKind::CompleteRun,
            Self::Fail => OpKind::FailRun,
            Self::Cancel => OpKind::CancelRun,
            Self::Pause => OpKind::PauseRun,
            Self::Resume => OpKind::ResumeRun,
        }
    }

    const fn event(self) -> EventKind {
        match self {
            Self::Complete(_) => EventKind::RunCompleted,
            Self::Fail => EventKind::RunFailed,
            Self::Cancel => EventKind::RunCancelled,
            Self::Pause => EventKind::RunPaused,
            Self::Resume => EventKind::RunResumed,
        }
    }
}

/// Ends, pauses or resumes a run. Emits `RunCompleted`, `RunFailed`, `RunCancelled`, `RunPaused`
/// or `RunResumed`.
///
/// Pausing a paused run and resuming an active one change only the op log and emit no event.
pub fn change_run(
    call: &RunCall,
    record: &mut RunRecord,
    change: RunChange<'_>,
    op: OpId,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, RunTransitionError> {
    check_tenant_of(call.tenant, record.tenant)?;
    let attempt = payload::run(change.kind(), op);
    if check_op_idempotency(&record.op_log, attempt)?.is_some() {
        return Ok(IdempotentOutcome::Replayed(()));
    }
    check_change(record, change)?;

    let was_paused = record.paused;
    match change {
        RunChange::Complete(_) => end(record, RunStatus::Done, call.now),
        RunChange::Fail => end(record, RunStatus::Failed, call.now),
        RunChange::Cancel => end(record, RunStatus::Cancelled, call.now),
        RunChange::Pause => record.paused = true,
        RunChange::Resume => record.paused = false,
    }
    record.op_log.record(attempt, call.now);
    record.assert_invariants();
    if record.status.is_terminal() || record.paused != was_paused {
        call.emit(record.run, events, || change.event());
    }
    Ok(IdempotentOutcome::Executed(()))
}

fn check_change(record: &RunRecord, change: RunChange<'_>) -> Result<(), RunTransitionError> {
    let (run, status) = (record.run, record.status);
    if status.is_terminal() {
        return Err(RunTerminal { run, status }.into());
    }
    if status != RunStatus::Active && change != RunChange::Cancel {
        return Err(WrongStatus { run, status }.into());
    }
    if let RunChange::Complete(progress) = change {
        return match evaluate_run_terminal(progress) {
            RunTerminalEvaluation::AllDone => Ok(()),
            RunTerminalEvaluation::StillActive | RunTerminalEvaluation::HasFailures => {
                Err(progress.unfinished(run).into())
            }
        };
    }
    Ok(())
}

/// The end is never before the creation, even if the operator's clock was set back.
fn end(record: &mut RunRecord, status: RunStatus, now: LogicalTime) {
    record.status = status;
    record.paused = false;
    record.completed_at = Some(now.max(record.created_at));
}
