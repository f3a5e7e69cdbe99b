//! What can be done to a run as a whole. None of it needs a lease.

use shardwright_contracts::{
    InitialShardInput, LogicalTime, OpId, RunId, ShardId, TenantId, validate_manifest,
};

use super::assert_sound;
use crate::error::reason::{ConfigMismatch, RunAlreadyExists, RunTerminal, WrongStatus};
use crate::error::{CreateRunError, RegisterShardsError, RunTransitionError};
use crate::events::{EventCollector, EventKind, StateTransitionEvent};
use crate::guard::check_tenant_of;
use crate::op_log::{IdempotentOutcome, OpAttempt, OpKind, RunOpLog, check_op_idempotency};
use crate::payload;
use crate::planted::{self, Defect};
use crate::progress::{RunProgress, RunTerminalEvaluation, evaluate_run_terminal};
use crate::record::{RunConfig, RunRecord};
use crate::status::RunStatus;

/// Who asks for a change of a run, and when.
#[derive(Clone, Copy, Debug)]
pub struct RunCall {
    /// What time it is.
    pub now: LogicalTime,
    /// Who asks.
    pub tenant: TenantId,
}

impl RunCall {
    fn emit(&self, run: RunId, events: &mut EventCollector, kind: impl FnOnce() -> EventKind) {
        let (tenant, at) = (self.tenant, self.now);
        events.emit_with(|| StateTransitionEvent { tenant, run, at, kind: kind() });
    }
}

/// Makes a run that waits for its shards, unless there is one of that id. Emits `RunCreated`.
pub fn create_run(
    call: &RunCall,
    run: RunId,
    config: RunConfig,
    existing: Option<&RunRecord>,
    events: &mut EventCollector,
) -> Result<RunRecord, CreateRunError> {
    if let Some(existing) = existing {
        return Err(if existing.config == config {
            RunAlreadyExists { run }.into()
        } else {
            ConfigMismatch { run }.into()
        });
    }
    let record = RunRecord {
        tenant: call.tenant,
        run,
        config,
        status: RunStatus::Initializing,
        paused: false,
        created_at: call.now,
        completed_at: None,
        root_shards: Vec::new(),
        op_log: RunOpLog::new(),
    };
    assert_sound(record.check_invariants());
    call.emit(run, events, || EventKind::RunCreated);
    Ok(record)
}

/// How far a registration has come.
#[derive(Debug)]
pub enum RegisterStep {
    /// It was done before; nothing is left to do.
    Replayed,
    /// It can be done: make room for the shards, insert them, then apply it.
    Ready(RegisterPending),
}

/// A registration that passed every check and waits for room.
#[derive(Debug)]
pub struct RegisterPending {
    root_shards: Vec<ShardId>,
    attempt: OpAttempt,
}

/// Checks whether `shards` can become the manifest of a run.
pub fn register_shards(
    call: &RunCall,
    record: &RunRecord,
    shards: &[InitialShardInput<'_>],
    op: OpId,
) -> Result<RegisterStep, RegisterShardsError> {
    check_tenant_of(call.tenant, record.tenant)?;
    let attempt = payload::register_shards(op, shards);
    if check_op_idempotency(&record.op_log, attempt)?.is_some() {
        return Ok(RegisterStep::Replayed);
    }
    if record.status != RunStatus::Initializing {
        return Err(WrongStatus { run: record.run, status: record.status }.into());
    }
    validate_manifest(shards)?;
    let mut root_shards: Vec<ShardId> = shards.iter().map(|input| input.shard).collect();
    root_shards.sort_unstable();
    Ok(RegisterStep::Ready(RegisterPending { root_shards, attempt }))
}

impl RegisterPending {
    /// The operation, by which a registration in several steps knows its own traces.
    #[must_use]
    pub const fn attempt(&self) -> OpAttempt {
        self.attempt
    }

    /// How many shards there are to insert.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.root_shards.len()
    }

    /// Starts the run, now that its shards are there. Emits `RunActivated`.
    pub fn apply(self, call: &RunCall, record: &mut RunRecord, events: &mut EventCollector) {
        let shard_count = self.root_shards.len() as u32;
        record.status = RunStatus::Active;
        record.root_shards = self.root_shards;
        record.op_log.record(self.attempt, call.now);
        assert_sound(record.check_invariants());
        call.emit(record.run, events, || EventKind::RunActivated { shard_count });
    }
}

/// A change of a run as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange<'a> {
    /// End it as done. Needs every shard to be done or split.
    Complete(&'a RunProgress),
    /// End it as failed.
    Fail,
    /// End it as cancelled, even before it has shards.
    Cancel,
    /// Hand out nothing new for the time being.
    Pause,
    /// Hand out shards again.
    Resume,
}

impl RunChange<'_> {
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
/// Pausing a paused run and resuming one that is not are fine; they change nothing but the op log
/// and are no event.
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
    assert_sound(record.check_invariants());
    if record.status.is_terminal() || record.paused != was_paused {
        call.emit(record.run, events, || change.event());
    }
    Ok(IdempotentOutcome::Executed(()))
}

fn check_change(record: &RunRecord, change: RunChange<'_>) -> Result<(), RunTransitionError> {
    let (run, status) = (record.run, record.status);
    if status.is_terminal() && !planted::is_active(Defect::RunEndsTwice) {
        return Err(RunTerminal { run, status }.into());
    }
    if status != RunStatus::Active && change != RunChange::Cancel {
        return Err(WrongStatus { run, status }.into());
    }
    if let RunChange::Complete(progress) = change {
        return match evaluate_run_terminal(progress) {
            _ if planted::is_active(Defect::CompleteRunUnchecked) => Ok(()),
            RunTerminalEvaluation::AllDone => Ok(()),
            RunTerminalEvaluation::StillActive | RunTerminalEvaluation::HasFailures => {
                Err(progress.unfinished(run).into())
            }
        };
    }
    Ok(())
}

/// An operator's clock may have been set back; the record's times still make sense.
fn end(record: &mut RunRecord, status: RunStatus, now: LogicalTime) {
    record.status = status;
    record.paused = false;
    let now = if planted::is_active(Defect::EndUntimed) { record.created_at } else { now };
    record.completed_at = Some(now.max(record.created_at));
}
