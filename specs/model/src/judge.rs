//! The rules, judged over one step: the world before, the answer, the world after.
//!
//! Judges look at the true time, the true records and the model's own notes, whatever an
//! operation was made to believe.

use shardwright_coordination::{
    CoordError, IdempotentOutcome, ParkReason, RunRecord, RunStatus, RunTransitionError,
    ShardStatus,
};

use crate::action::Change;
use crate::executor::{Answer, Call, Operation};
use crate::property::{Rule, Rules};
use crate::request::{Ask, Known};
use crate::world::{Shard, TENANT, World, worker_id};

/// One call to a shard, and what came of it.
pub(crate) struct Case<'a> {
    pub(crate) call: &'a Call,
    pub(crate) answer: &'a Answer,
    pub(crate) before: &'a World,
    /// The world after, if anything in it is different.
    pub(crate) after: Option<&'a World>,
    /// What must be said, because the request is remembered.
    pub(crate) owed: Option<Known>,
    /// Whether the operation touched the record.
    pub(crate) touched: bool,
}

impl Case<'_> {
    /// The rules that the step breaks.
    pub(crate) fn broken(&self) -> Rules {
        let mut broken = Rules::default();
        let Some(shard) = self.before.shard(self.call.shard) else { return broken };
        broken.insert_if(!self.is_answer_owed(), Rule::OneEffect);
        if !self.answer.is_accepted() {
            broken.insert_if(self.touched, Rule::RefusalsChangeNothing);
            let odd = |error: &CoordError| !self.has_reason(error, shard);
            let odd = matches!(self.answer, Answer::Refused(error) if odd(error));
            broken.insert_if(odd, Rule::RefusalsHaveReasons);
            return broken;
        }
        // One effect is not none.
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

    fn is_answer_owed(&self) -> bool {
        let conflict = matches!(self.answer, Answer::Refused(CoordError::OpIdConflict(_)));
        let replayed = *self.answer == Answer::Replayed;
        match self.owed {
            // A stranger learns nothing, remembered or not.
            _ if self.call.tenant != TENANT => !conflict && !replayed,
            Some(Known::Replay) => replayed,
            Some(Known::Conflict) => conflict,
            None => !conflict && !replayed,
        }
    }

    /// Whether the world gives the reason for which the call was refused.
    fn has_reason(&self, error: &CoordError, shard: &Shard) -> bool {
        let head = &shard.record.head;
        let (status, run, now) = (head.status, &self.before.run, self.before.now);
        let holder = head.lease.filter(|holder| now < holder.deadline);
        let (start, end) = shard.range();
        match error {
            CoordError::TenantMismatch(_) => self.call.tenant != TENANT,
            CoordError::OpIdConflict(_) => self.owed == Some(Known::Conflict),
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
            // The world is too small for any other.
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
            Operation::Ask(Ask::Unpark, _) => true,
            Operation::Renew | Operation::Ask(..) => false,
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

    /// A shard that has failed too often parks itself instead of being handed out, and at no other
    /// time.
    fn judge_parking(&self, before: &Shard, after: &Shard, broken: &mut Rules) {
        let (run, head) = (&self.before.run, &before.record.head);
        let max = run.config.max_shard_retries;
        let has_failed = max.is_some_and(|max| head.fruitless_acquires >= max.get());
        match self.answer {
            Answer::Granted(_) => broken.insert_if(has_failed, Rule::ParksInNeed),
            Answer::ParkedItself => {
                let is_free = head.lease.is_none_or(|holder| holder.deadline <= self.before.now);
                let hands_out = run.status == RunStatus::Active && !run.paused;
                let reason = after.record.park_reason();
                let says_so = reason == Some(ParkReason::TooManyErrors);
                let is_due = has_failed && is_free && hands_out && says_so;
                broken.insert_if(!is_due, Rule::ParksInNeed);
            }
            Answer::Executed | Answer::Replayed | Answer::Refused(_) | Answer::NoRoom => {}
        }
    }

    fn judge_status(&self, before: &Shard, after: &Shard, broken: &mut Rules) {
        let old = before.record.head.status;
        let new = after.record.head.status;
        let legal = match (old, self.call.operation) {
            (ShardStatus::Parked, Operation::Ask(Ask::Unpark, _)) => new == ShardStatus::Active,
            (ShardStatus::Active, Operation::Ask(Ask::Unpark, _)) => false,
            (ShardStatus::Active, operation) => new == self.status_after(operation),
            // Accepting anything of a shard that has come to its end is as bad as changing it.
            (ShardStatus::Done | ShardStatus::Split | ShardStatus::Parked, _) => false,
        };
        broken.insert_if(!legal, Rule::TerminalStays);
    }

    /// Where an active shard stands after something was done to it.
    fn status_after(&self, operation: Operation) -> ShardStatus {
        match operation {
            Operation::Acquire if *self.answer == Answer::ParkedItself => ShardStatus::Parked,
            Operation::Acquire | Operation::Renew => ShardStatus::Active,
            Operation::Ask(ask, _) => match ask {
                Ask::Checkpoint(_) | Ask::Release | Ask::Residual(_) | Ask::Unpark => {
                    ShardStatus::Active
                }
                Ask::Complete(_) => ShardStatus::Done,
                Ask::Park => ShardStatus::Parked,
                Ask::Replace(_) => ShardStatus::Split,
            },
        }
    }

    /// The shard's cursor stands where it was told to, which is not behind where it stood, or where
    /// it stood; and no new shard claims more than it had reached.
    fn is_cursor_kept(&self, before: &Shard, after: &World) -> bool {
        let reached = before.cursor();
        let told = match self.call.operation {
            Operation::Ask(Ask::Checkpoint(_) | Ask::Complete(_), _) => self.call.key(),
            Operation::Acquire | Operation::Renew | Operation::Ask(..) => reached,
        };
        let shard = after.shard(self.call.shard);
        let mut fresh = after.shards.iter().skip(self.before.shards.len());
        let is_kept = told >= reached;
        is_kept
            && shard.is_some_and(|shard| shard.cursor() == told && is_inside(shard))
            && fresh.all(|child| child.cursor() <= reached && is_inside(child))
    }
}

fn is_inside(shard: &Shard) -> bool {
    let (start, end) = shard.range();
    shard.cursor().is_none_or(|key| start <= key && key < end)
}

/// Whether the shards that stand for themselves cover every key of the manifest once.
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

/// A change of the run, what an operator was told, and the record that it left.
pub(crate) struct ChangeCase<'a> {
    pub(crate) before: &'a World,
    pub(crate) change: Change,
    pub(crate) answer: &'a Result<IdempotentOutcome<()>, RunTransitionError>,
    pub(crate) run: &'a RunRecord,
    /// Whether the operation touched the record.
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
                broken.insert_if(*run != self.wanted(), Rule::ChangesTakeEffect);
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

    /// Whether the world gives the reason for which the change was refused.
    fn has_reason(&self, error: &RunTransitionError) -> bool {
        let is_over = self.before.run.status.is_terminal();
        match error {
            RunTransitionError::RunTerminal(_) => is_over,
            RunTransitionError::RunUnfinished(_) => {
                self.change == Change::Complete && !is_over && !self.is_all_done()
            }
            // Nobody else knows the id, and the world is too small for any other.
            RunTransitionError::OpIdConflict(_)
            | RunTransitionError::RunNotFound(_)
            | RunTransitionError::TenantMismatch(_)
            | RunTransitionError::WrongStatus(_)
            | RunTransitionError::BackendError(_) => false,
        }
    }

    /// The record that the change is to leave; what it remembers is judged apart.
    fn wanted(&self) -> RunRecord {
        let mut wanted = RunRecord::clone(&self.before.run);
        (wanted.status, wanted.paused) = match self.change {
            Change::Pause => (wanted.status, true),
            Change::Resume => (wanted.status, false),
            Change::Complete => (RunStatus::Done, false),
            Change::Fail => (RunStatus::Failed, false),
            Change::Cancel => (RunStatus::Cancelled, false),
        };
        if wanted.status.is_terminal() {
            wanted.completed_at = Some(self.before.now.max(wanted.created_at));
        }
        wanted.op_log = self.run.op_log.clone();
        wanted
    }
}
