//! Collects the situations of a step, so that no rule holds vacuously.

use shardwright_coordination::CoordError;

use crate::executor::{Answer, Operation};
use crate::judge::Case;
use crate::property::{Situation, Situations};
use crate::request::{Command, ExpectedAnswer};
use crate::world::{Shard, World, worker_id};

impl Case<'_> {
    /// The situations of the step.
    pub(crate) fn situations(&self) -> Situations {
        let mut seen = Situations::default();
        let Some(shard) = self.before.shard(self.call.shard) else { return seen };
        match self.answer {
            Answer::Refused(error) => self.note_refusal(error, shard, &mut seen),
            Answer::Granted(_) => self.note_grant(shard, &mut seen),
            Answer::SelfParked => seen.insert(Situation::SelfParked),
            Answer::NoRoom => seen.insert(Situation::NoRoom),
            Answer::Replayed => {
                seen.insert(Situation::Replayed);
                let live = |holder| self.before.now < holder;
                let leased =
                    shard.record.head.lease.map(|holder| holder.deadline).is_some_and(live);
                seen.insert_if(!leased, Situation::ReplayedWithoutLease);
                let ended = self.before.run.status.is_terminal();
                seen.insert_if(ended, Situation::ReplayedAfterEnd);
            }
            Answer::Executed => self.note_effect(shard, &mut seen),
        }
        seen
    }

    fn note_refusal(&self, error: &CoordError, shard: &Shard, seen: &mut Situations) {
        let Some(situation) = refusal(error) else { return };
        seen.insert(situation);
        let head = &shard.record.head;
        if situation == Situation::LeaseExpired {
            let at_deadline = head.lease.is_some_and(|holder| holder.deadline == self.before.now);
            seen.insert_if(at_deadline, Situation::ExpiredAtDeadline);
        }
        if situation == Situation::StaleFence {
            let other = |owner| owner != worker_id(self.call.worker);
            seen.insert_if(shard.granted.is_some_and(other), Situation::ZombieRefused);
        }
    }

    fn note_grant(&self, shard: &Shard, seen: &mut Situations) {
        seen.insert(Situation::Acquired);
        let other = shard.granted.is_some_and(|owner| owner != worker_id(self.call.worker));
        let leased = shard.record.head.lease.is_some();
        seen.insert_if(other && leased, Situation::TakenOver);
        seen.insert_if(other && !leased, Situation::ReleasedThenAcquired);
        seen.insert_if(self.after.is_some_and(has_two_holders), Situation::TwoHolders);
    }

    fn note_effect(&self, shard: &Shard, seen: &mut Situations) {
        seen.insert_if(self.before.run.paused, Situation::WorksWhilePaused);
        let derived = shard.record.head.parent.is_some();
        let cursor = shard.cursor();
        match self.call.operation {
            Operation::Acquire => {}
            Operation::Renew => {
                let deadline = |world: &World| {
                    let shard = world.shard(self.call.shard)?;
                    shard.record.head.lease.map(|holder| holder.deadline)
                };
                let after = self.after.and_then(deadline);
                seen.insert_if(after > deadline(self.before), Situation::Renewed);
            }
            Operation::Command(Command::Checkpoint(key), _) => {
                seen.insert_if(key > cursor, Situation::Checkpointed);
            }
            Operation::Command(Command::Complete(key), _) => {
                seen.insert(Situation::Completed);
                seen.insert_if(key.is_none(), Situation::CompletedEmpty);
            }
            Operation::Command(Command::Park, _) => seen.insert(Situation::Parked),
            Operation::Command(Command::Release, _) => seen.insert(Situation::Released),
            Operation::Command(Command::Unpark, _) => seen.insert(Situation::Unparked),
            Operation::Command(Command::Replace(_), _) => {
                seen.insert(Situation::Replaced);
                seen.insert_if(cursor.is_some(), Situation::ReplacedMidway);
                seen.insert_if(derived, Situation::SplitAgain);
            }
            Operation::Command(Command::Residual(_), _) => {
                seen.insert(Situation::Residual);
                seen.insert_if(derived, Situation::SplitAgain);
            }
        }
    }

    /// The situations of a request whose entry was evicted.
    pub(crate) fn situations_after_eviction(&self) -> Situations {
        let mut seen = Situations::default();
        match self.expected {
            Some(ExpectedAnswer::Replay) => seen.insert(Situation::ResidualOutlivesLog),
            Some(ExpectedAnswer::Conflict) => seen.insert(Situation::ConflictOutlivesLog),
            None if self.answer.is_accepted() => seen.insert(Situation::AcceptedAfterEviction),
            None => seen.insert(Situation::RefusedAfterEviction),
        }
        seen
    }
}

fn has_two_holders(world: &World) -> bool {
    let live = |shard: &Shard| {
        let holder = shard.record.head.lease.filter(|holder| !holder.is_expired(world.now));
        holder.map(|holder| holder.owner)
    };
    let mut owners = world.shards.iter().filter_map(|shard| live(shard));
    owners.next().is_some_and(|first| owners.any(|other| other != first))
}

/// The situation of a refusal; none for those that the world is too small for.
pub(crate) const fn refusal(error: &CoordError) -> Option<Situation> {
    Some(match error {
        CoordError::TenantMismatch(_) => Situation::TenantMismatch,
        CoordError::OpIdConflict(_) => Situation::OpIdConflict,
        CoordError::RunNotActive(_) => Situation::RunNotActive,
        CoordError::RunTerminal(_) => Situation::RunTerminal,
        CoordError::RunUnfinished(_) => Situation::RunUnfinished,
        CoordError::RunPaused(_) => Situation::RunPaused,
        CoordError::ShardTerminal(_) => Situation::ShardTerminal,
        CoordError::NotParked(_) => Situation::NotParked,
        CoordError::StaleFence(_) => Situation::StaleFence,
        CoordError::LeaseExpired(_) => Situation::LeaseExpired,
        CoordError::AlreadyLeased(_) => Situation::AlreadyLeased,
        CoordError::CheckpointMissingKey(_) => Situation::CheckpointMissingKey,
        CoordError::CursorRegression(_) => Situation::CursorRegression,
        CoordError::CursorOutOfBounds(_) => Situation::CursorOutOfBounds,
        CoordError::SplitInvalid(_) => Situation::SplitInvalid,
        // In this world no record is missing, oversized or created twice, no claim is throttled, no
        // number is exhausted, no run has a name and no split is requested. A shard that parks
        // itself is an answer, not a refusal.
        CoordError::RunNotFound(_)
        | CoordError::RunAlreadyExists(_)
        | CoordError::ConfigMismatch(_)
        | CoordError::ShardNotFound(_)
        | CoordError::WrongStatus(_)
        | CoordError::FenceExhausted(_)
        | CoordError::RetriesExhausted(_)
        | CoordError::CursorKeyTooLarge(_)
        | CoordError::CursorTokenTooLarge(_)
        | CoordError::ParkDetailTooLarge(_)
        | CoordError::NotLeased(_)
        | CoordError::SplitAlreadyRequested(_)
        | CoordError::SplitRequestOver(_)
        | CoordError::SplitDeclined(_)
        | CoordError::Throttled(_)
        | CoordError::NoneAvailable(_)
        | CoordError::ManifestInvalid(_)
        | CoordError::ShardLimitExceeded(_)
        | CoordError::RunLimitExceeded(_)
        | CoordError::RunIdUsed(_)
        | CoordError::LabelTooLarge(_)
        | CoordError::ResourceExhausted(_)
        | CoordError::BackendError(_) => return None,
    })
}
