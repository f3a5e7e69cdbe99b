//! The rules, judged on one step: the world before, the answer, and the world after.
//!
//! The judgement uses the real time, the real records and the model's own notes, not what a defect
//! made an operation see.

use shardwright_coordination::{
    CoordError, IdempotentOutcome, ParkReason, RunRecord, RunStatus, RunTransitionError,
    ShardStatus,
};

use crate::action::Change;
use crate::executor::{Answer, Call, Operation};
use crate::property::{Rule, Rules};
use crate::request::{Command, ExpectedAnswer};
use crate::world::{Shard, TENANT, World, worker_id};

/// One call to a shard and its outcome.
pub(crate) struct Case<'a> {
    pub(crate) call: &'a Call,
    pub(crate) answer: &'a Answer,
    pub(crate) before: &'a World,
    /// The world after the call, if it changed.
    pub(crate) after: Option<&'a World>,
    /// The required answer, if the request is remembered.
    pub(crate) expected: Option<ExpectedAnswer>,
    /// Whether the operation wrote to the record.
    pub(crate) touched: bool,
}

impl Case<'_> {
    /// The rules that the step breaks.
    pub(crate) fn broken(&self) -> Rules {
        let mut broken = Rules::default();
        let Some(shard) = self.before.shard(self.call.shard) else { return broken };
        broken.insert_if(!self.is_answer_expected(), Rule::OneEffect);
        if !self.answer.is_accepted() {
            broken.insert_if(self.touched, Rule::RefusalsChangeNothing);
            let is_untrue = |error: &CoordError| !self.has_reason(error, shard);
            let is_untrue = matches!(self.answer, Answer::Refused(error) if is_untrue(error));
            broken.insert_if(is_untrue, Rule::RefusalsHaveReasons);
            return broken;
        }
        // An accepted operation must have an effect.
        broken.insert_if(!self.touched, Rule::OneEffect);
        broken.insert_if(self.call.tenant != TENANT, Rule::TenantsApart);
        broken.insert_if(self.before.run.status.is_terminal(), Rule::EndedStays);
        if self.call.needs_lease() {
            self.judge_writer(shard, &mut broken);
        }
        let Some(after) = self.after else { return broken };
        let Some(changed) = after.shard(self.call.shard) else { return broken };
        self.judge_owner(shard, changed, &mut broken);
        self.judge_parking(shard, changed, &mut broken);
        self.judge_status(shard, changed, &mut broken);
        broken.insert_if(!self.is_cursor_kept(shard, after), Rule::CursorsAdvance);
        broken.insert_if(!tiles(after), Rule::LeavesTile);
        let fresh = after.shards.iter().skip(self.before.shards.len()).map(AsRef::as_ref);
        let sound = |shard: &Shard| shard.record.check_invariants().is_ok();
        let all_sound = fresh.chain([changed]).all(sound);
        broken.insert_if(!all_sound, Rule::RecordsSound);
        broken
    }

    fn is_answer_expected(&self) -> bool {
        let conflict = matches!(self.answer, Answer::Refused(CoordError::OpIdConflict(_)));
        let replayed = *self.answer == Answer::Replayed;
        match self.expected {
            // Another tenant learns nothing, whether the request is remembered or not.
            _ if self.call.tenant != TENANT => !conflict && !replayed,
            Some(ExpectedAnswer::Replay) => replayed,
            Some(ExpectedAnswer::Conflict) => conflict,
            None => !conflict && !replayed,
        }
    }

    /// Whether the reason of the refusal is true in the world.
    fn has_reason(&self, error: &CoordError, shard: &Shard) -> bool {
        let head = &shard.record.head;
        let (status, run, now) = (head.status, &self.before.run, self.before.now);
        let holder = head.lease.filter(|holder| now < holder.deadline);
        let (start, end) = shard.range();
        match error {
            CoordError::TenantMismatch(_) => self.call.tenant != TENANT,
            CoordError::OpIdConflict(_) => self.expected == Some(ExpectedAnswer::Conflict),
            CoordError::RunNotActive(_) => run.status != RunStatus::Active,
            CoordError::RunTerminal(_) => run.status.is_terminal(),
            CoordError::RunPaused(_) => run.paused,
            CoordError::ShardTerminal(_) => status != ShardStatus::Active,
            CoordError::NotParked(_) => status != ShardStatus::Parked,
            CoordError::StaleFence(_) => {
                let worker = worker_id(self.call.worker);
                self.call.fence != Some(head.fence)
                    || head.lease.is_none_or(|holder| holder.owner != worker)
            }
            CoordError::LeaseExpired(_) => holder.is_none(),
            CoordError::AlreadyLeased(_) => holder.is_some(),
            CoordError::CheckpointMissingKey(_) => self.call.key().is_none(),
            CoordError::CursorRegression(_) => self.call.key() < shard.cursor(),
            CoordError::CursorOutOfBounds(_) => {
                self.call.key().is_some_and(|key| key < start || end <= key)
            }
            CoordError::SplitInvalid(_) => self.call.plan().is_some_and(|plan| {
                (plan.start, plan.end) != (start, end) || plan.cursor != shard.cursor()
            }),
            // No other refusal can occur in this world.
            _ => false,
        }
    }

    fn judge_writer(&self, shard: &Shard, broken: &mut Rules) {
        let (head, worker) = (&shard.record.head, worker_id(self.call.worker));
        let holds = self.call.fence == Some(head.fence)
            && head
                .lease
                .is_some_and(|holder| holder.owner == worker && self.before.now < holder.deadline);
        broken.insert_if(!holds, Rule::ZombiesRefused);
        broken.insert_if(shard.granted != Some(worker), Rule::OneWriter);
    }

    fn judge_owner(&self, before: &Shard, after: &Shard, broken: &mut Rules) {
        let (old, new) = (before.record.head.fence, after.record.head.fence);
        let rises = match self.call.operation {
            Operation::Acquire => matches!(self.answer, Answer::Granted(_)),
            Operation::Command(Command::Unpark, _) => true,
            Operation::Renew | Operation::Command(..) => false,
        };
        broken.insert_if(if rises { new <= old } else { new != old }, Rule::FencesRise);
        let Answer::Granted(lease) = self.answer else { return };
        let worker = worker_id(self.call.worker);
        let shared = new == old && before.granted.is_some_and(|owner| owner != worker);
        let theirs = lease.fence() == new && lease.owner() == worker;
        broken.insert_if(shared || !theirs, Rule::OneWriter);
        broken.insert_if(self.before.run.paused, Rule::PauseHolds);
        let lease = before.record.head.lease;
        let lasts = lease.is_some_and(|holder| self.before.now < holder.deadline);
        broken.insert_if(lasts, Rule::LeaseHolds);
    }

    /// A shard without attempts left parks itself instead of being granted, and at no other time.
    fn judge_parking(&self, before: &Shard, after: &Shard, broken: &mut Rules) {
        let (run, head) = (&self.before.run, &before.record.head);
        let max = run.config.max_shard_retries;
        let is_exhausted = max.is_some_and(|max| head.acquires_without_progress >= max.get());
        match self.answer {
            Answer::Granted(_) => broken.insert_if(is_exhausted, Rule::ParksWhenExhausted),
            Answer::SelfParked => {
                let is_free = head.lease.is_none_or(|holder| holder.deadline <= self.before.now);
                let grants = run.status == RunStatus::Active && !run.paused;
                let reason = after.record.park_reason();
                let names_reason = reason == Some(ParkReason::TooManyErrors);
                let is_due = is_exhausted && is_free && grants && names_reason;
                broken.insert_if(!is_due, Rule::ParksWhenExhausted);
            }
            Answer::Executed | Answer::Replayed | Answer::Refused(_) | Answer::NoRoom => {}
        }
    }

    fn judge_status(&self, before: &Shard, after: &Shard, broken: &mut Rules) {
        let old = before.record.head.status;
        let new = after.record.head.status;
        let legal = match (old, self.call.operation) {
            (ShardStatus::Parked, Operation::Command(Command::Unpark, _)) => {
                new == ShardStatus::Active
            }
            (ShardStatus::Active, Operation::Command(Command::Unpark, _)) => false,
            (ShardStatus::Active, operation) => new == self.status_after(operation),
            // A terminal shard must accept nothing but an unpark.
            (ShardStatus::Done | ShardStatus::Split | ShardStatus::Parked, _) => false,
        };
        broken.insert_if(!legal, Rule::TerminalStays);
    }

    /// The status of an active shard after an operation.
    fn status_after(&self, operation: Operation) -> ShardStatus {
        match operation {
            Operation::Acquire if *self.answer == Answer::SelfParked => ShardStatus::Parked,
            Operation::Acquire | Operation::Renew => ShardStatus::Active,
            Operation::Command(command, _) => match command {
                Command::Checkpoint(_)
                | Command::Release
                | Command::Residual(_)
                | Command::Unpark => ShardStatus::Active,
                Command::Complete(_) => ShardStatus::Done,
                Command::Park => ShardStatus::Parked,
                Command::Replace(_) => ShardStatus::Split,
            },
        }
    }

    /// Whether the cursor is at the requested key and not before the previous one. Without a
    /// requested key it must be unchanged. No new shard may start beyond the previous cursor.
    fn is_cursor_kept(&self, before: &Shard, after: &World) -> bool {
        let reached = before.cursor();
        let requested = match self.call.operation {
            Operation::Command(Command::Checkpoint(_) | Command::Complete(_), _) => self.call.key(),
            Operation::Acquire | Operation::Renew | Operation::Command(..) => reached,
        };
        let shard = after.shard(self.call.shard);
        let mut fresh = after.shards.iter().skip(self.before.shards.len());
        let is_kept = requested >= reached;
        is_kept
            && shard.is_some_and(|shard| shard.cursor() == requested && is_inside(shard))
            && fresh.all(|child| child.cursor() <= reached && is_inside(child))
    }
}

fn is_inside(shard: &Shard) -> bool {
    let (start, end) = shard.range();
    shard.cursor().is_none_or(|key| start <= key && key < end)
}

/// Whether the leaves cover every key of the manifest exactly once.
fn tiles(world: &World) -> bool {
    let is_leaf = |shard: &&Shard| shard.record.head.status != ShardStatus::Split;
    let mut leaves: Vec<_> =
        world.shards.iter().map(AsRef::as_ref).filter(is_leaf).map(Shard::range).collect();
    leaves.sort_unstable();
    let mut at = 0;
    for (start, end) in leaves {
        if start != at || end <= start {
            return false;
        }
        at = end;
    }
    at == world.keys
}

/// A change of the run, its answer and the resulting record.
pub(crate) struct ChangeCase<'a> {
    pub(crate) before: &'a World,
    pub(crate) change: Change,
    pub(crate) answer: &'a Result<IdempotentOutcome<()>, RunTransitionError>,
    pub(crate) run: &'a RunRecord,
    /// Whether the operation wrote to the record.
    pub(crate) touched: bool,
}

impl ChangeCase<'_> {
    /// The rules that the change breaks.
    pub(crate) fn broken(&self) -> Rules {
        let mut broken = Rules::default();
        let (old, run) = (&self.before.run, self.run);
        match self.answer {
            Ok(IdempotentOutcome::Replayed(())) => broken.insert(Rule::OneEffect),
            Ok(IdempotentOutcome::Executed(())) => {
                broken.insert_if(old.status.is_terminal(), Rule::EndedStays);
                broken.insert_if(run.check_invariants().is_err(), Rule::RecordsSound);
                let is_done = run.status == RunStatus::Done;
                broken.insert_if(is_done && !self.is_all_done(), Rule::DoneMeansDone);
                broken.insert_if(*run != self.expected_record(), Rule::ChangesTakeEffect);
            }
            Err(error) => {
                broken.insert_if(self.touched, Rule::RefusalsChangeNothing);
                broken.insert_if(!self.has_reason(error), Rule::RefusalsHaveReasons);
            }
        }
        broken
    }

    fn is_all_done(&self) -> bool {
        self.before
            .shards
            .iter()
            .all(|shard| matches!(shard.record.head.status, ShardStatus::Done | ShardStatus::Split))
    }

    /// Whether the reason of the refusal is true in the world.
    fn has_reason(&self, error: &RunTransitionError) -> bool {
        let is_over = self.before.run.status.is_terminal();
        match error {
            RunTransitionError::RunTerminal(_) => is_over,
            RunTransitionError::RunUnfinished(_) => {
                self.change == Change::Complete && !is_over && !self.is_all_done()
            }
            // The id is new, and no other refusal can occur in this world.
            RunTransitionError::OpIdConflict(_)
            | RunTransitionError::RunNotFound(_)
            | RunTransitionError::TenantMismatch(_)
            | RunTransitionError::WrongStatus(_)
            | RunTransitionError::BackendError(_) => false,
        }
    }

    /// The expected record. Its op log is judged separately.
    fn expected_record(&self) -> RunRecord {
        let mut expected = RunRecord::clone(&self.before.run);
        (expected.status, expected.paused) = match self.change {
            Change::Pause => (expected.status, true),
            Change::Resume => (expected.status, false),
            Change::Complete => (RunStatus::Done, false),
            Change::Fail => (RunStatus::Failed, false),
            Change::Cancel => (RunStatus::Cancelled, false),
        };
        if expected.status.is_terminal() {
            expected.completed_at = Some(self.before.now.max(expected.created_at));
        }
        expected.op_log = self.run.op_log.clone();
        expected
    }
}
