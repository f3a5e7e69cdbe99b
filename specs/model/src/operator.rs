//! Changes of the run by an operator.

use std::sync::Arc;

use shardwright_contracts::FenceEpoch;
use shardwright_coordination::ops::{RunCall, RunChange, change_run};
use shardwright_coordination::{
    CoordError, EventCollector, IdempotentOutcome, OwnerLiveness, ProgressCounter, RunProgress,
    RunRecord, RunTransitionError, TakeoverTerms,
};

use crate::action::Change;
use crate::defect::Defect;
use crate::judge::ChangeCase;
use crate::model::Step;
use crate::property::{Rule, Situation, Situations};
use crate::witness::refusal;
use crate::world::{TENANT, World};

/// Changes the run. Then retries the request, and sends another one under the same id.
pub(crate) fn operate(defect: Option<Defect>, world: &World, change: Change) -> Step {
    let progress = match change {
        Change::Complete => progress(defect, world),
        Change::Pause | Change::Resume | Change::Fail | Change::Cancel => RunProgress::default(),
    };
    let mut situations = Situations::default();
    let change_with = |run: &mut RunRecord, change| {
        let call = RunCall { now: world.now, tenant: TENANT };
        let change = as_run_change(defect, change, &progress);
        change_run(&call, run, change, world.fresh_op(), &mut EventCollector::disabled())
    };
    let mut seen = Defect::run(defect, world);
    if defect == Some(Defect::FreshIdTaken) {
        // The outcome does not matter.
        _ = change_with(&mut seen, other(change));
    }
    let mut run = seen.clone();
    let answer = change_with(&mut run, change);
    if defect == Some(Defect::ResumeHasNoEffect) && change == Change::Resume {
        run.paused = world.run.paused;
    }
    let touched = run != seen;
    let case = ChangeCase { before: world, change, answer: &answer, run: &run, touched };
    let mut broken = case.broken();
    if let Err(error) = answer {
        if let Some(situation) = refusal(&CoordError::from(error)) {
            situations.insert(situation);
        }
        return Step { after: None, broken, situations };
    }
    // The operator may miss the answer and retry, or reuse the id. Every run is also reached
    // without requests in flight, because requests can be lost.
    if world.requests.is_empty() {
        let changed = run.clone();
        let again = change_with(&mut run, change);
        let mistaken = change_with(&mut run, other(change));
        let expected = again == Ok(IdempotentOutcome::Replayed(()))
            && matches!(mistaken, Err(RunTransitionError::OpIdConflict(_)));
        broken.insert_if(!expected || run != changed, Rule::OneEffect);
        situations.insert(Situation::RunOpReplayed);
    }
    situations.insert(situation_of(change));
    let held = world.shards.iter().any(|shard| shard.record.head.lease.is_some());
    situations.insert_if(held && change == Change::Cancel, Situation::CancelledWhileHeld);
    let after = World { run: Arc::new(run), next_op: world.next_op + 1, ..world.clone() };
    Step { after: Some(after), broken, situations }
}

fn as_run_change(defect: Option<Defect>, change: Change, progress: &RunProgress) -> RunChange<'_> {
    match change {
        Change::Fail if defect == Some(Defect::FailCancels) => RunChange::Cancel,
        Change::Pause => RunChange::Pause,
        Change::Resume => RunChange::Resume,
        Change::Complete => RunChange::Complete(progress),
        Change::Fail => RunChange::Fail,
        Change::Cancel => RunChange::Cancel,
    }
}

const fn other(change: Change) -> Change {
    match change {
        Change::Pause => Change::Resume,
        Change::Resume | Change::Complete | Change::Fail | Change::Cancel => Change::Pause,
    }
}

const fn situation_of(change: Change) -> Situation {
    match change {
        Change::Pause => Situation::Paused,
        Change::Resume => Situation::Resumed,
        Change::Complete => Situation::RunCompleted,
        Change::Fail => Situation::RunFailed,
        Change::Cancel => Situation::RunCancelled,
    }
}

fn progress(defect: Option<Defect>, world: &World) -> RunProgress {
    let terms = TakeoverTerms { now: world.now, fence_floor: FenceEpoch::INITIAL, skew_ms: 0 };
    let mut counter = ProgressCounter::new(terms);
    for shard in &world.shards {
        let record = &shard.record;
        let (spec, cursor) = (record.spec.as_spec_ref(), record.cursor.as_update());
        counter.add(&record.head, OwnerLiveness::Untracked, spec, cursor);
    }
    let mut progress = counter.finish(None);
    match defect {
        Some(Defect::ParkedCountsAsDone) => {
            (progress.done, progress.parked) = (progress.done + progress.parked, 0);
        }
        Some(Defect::DoneCountsAsActive) => {
            (progress.active, progress.done) = (progress.active + progress.done, 0);
        }
        _ => {}
    }
    progress
}
