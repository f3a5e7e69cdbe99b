//! Notes what a step shows, so that no rule holds for want of an occasion.

use shardwright_coordination::CoordError;

use crate::executor::{Answer, Operation};
use crate::judge::Case;
use crate::property::{Sight, Sights};
use crate::request::{Ask, Known};
use crate::world::{Shard, World, worker_id};

impl Case<'_> {
    /// What the step shows.
    pub(crate) fn sights(&self) -> Sights {
        let mut seen = Sights::default();
        let Some(shard) = self.before.shard(self.call.shard) else { return seen };
        match self.answer {
            Answer::Refused(error) => self.see_refusal(error, shard, &mut seen),
            Answer::Granted(_) => self.see_grant(shard, &mut seen),
            Answer::ParkedItself => seen.insert(Sight::ParkedItself),
            Answer::NoRoom => seen.insert(Sight::NoRoom),
            Answer::Replayed => {
                seen.insert(Sight::Replayed);
                let live = |holder| self.before.now < holder;
                let leased =
                    shard.record.head.lease.map(|holder| holder.deadline).is_some_and(live);
                seen.insert_if(!leased, Sight::ReplayedWithoutLease);
                let ended = self.before.run.status.is_terminal();
                seen.insert_if(ended, Sight::ReplayedAfterEnd);
            }
            Answer::Executed => self.see_effect(shard, &mut seen),
        }
        seen
    }

    fn see_refusal(&self, error: &CoordError, shard: &Shard, seen: &mut Sights) {
        let Some(sight) = refusal(error) else { return };
        seen.insert(sight);
        let head = &shard.record.head;
        if sight == Sight::LeaseExpired {
            let at_deadline = head.lease.is_some_and(|holder| holder.deadline == self.before.now);
            seen.insert_if(at_deadline, Sight::ExpiredAtDeadline);
        }
        if sight == Sight::StaleFence {
            let other = |owner| owner != worker_id(self.call.worker);
            seen.insert_if(shard.granted.is_some_and(other), Sight::ZombieRefused);
        }
    }

    fn see_grant(&self, shard: &Shard, seen: &mut Sights) {
        seen.insert(Sight::Acquired);
        let other = shard.granted.is_some_and(|owner| owner != worker_id(self.call.worker));
        let leased = shard.record.head.lease.is_some();
        seen.insert_if(other && leased, Sight::TakenOver);
        seen.insert_if(other && !leased, Sight::ReleasedThenAcquired);
        seen.insert_if(self.after.is_some_and(has_two_holders), Sight::TwoHolders);
    }

    fn see_effect(&self, shard: &Shard, seen: &mut Sights) {
        seen.insert_if(self.before.run.paused, Sight::WorksWhilePaused);
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
                seen.insert_if(after > deadline(self.before), Sight::Renewed);
            }
            Operation::Ask(Ask::Checkpoint(key), _) => {
                seen.insert_if(key > cursor, Sight::Checkpointed);
            }
            Operation::Ask(Ask::Complete(key), _) => {
                seen.insert(Sight::Completed);
                seen.insert_if(key.is_none(), Sight::CompletedEmpty);
            }
            Operation::Ask(Ask::Park, _) => seen.insert(Sight::Parked),
            Operation::Ask(Ask::Release, _) => seen.insert(Sight::Released),
            Operation::Ask(Ask::Unpark, _) => seen.insert(Sight::Unparked),
            Operation::Ask(Ask::Replace(_), _) => {
                seen.insert(Sight::Replaced);
                seen.insert_if(cursor.is_some(), Sight::ReplacedMidway);
                seen.insert_if(derived, Sight::SplitAgain);
            }
            Operation::Ask(Ask::Residual(_), _) => {
                seen.insert(Sight::Residual);
                seen.insert_if(derived, Sight::SplitAgain);
            }
        }
    }

    /// What a request shows that the log has forgotten.
    pub(crate) fn sights_after_eviction(&self) -> Sights {
        let mut seen = Sights::default();
        match self.owed {
            Some(Known::Replay) => seen.insert(Sight::ResidualOutlivesLog),
            Some(Known::Conflict) => seen.insert(Sight::ConflictOutlivesLog),
            None if self.answer.is_accepted() => seen.insert(Sight::AcceptedAnew),
            None => seen.insert(Sight::JudgedAnew),
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

/// The sight of a refusal; none for those that the world is too small for.
pub(crate) const fn refusal(error: &CoordError) -> Option<Sight> {
    Some(match error {
        CoordError::TenantMismatch(_) => Sight::TenantMismatch,
        CoordError::OpIdConflict(_) => Sight::OpIdConflict,
        CoordError::RunNotActive(_) => Sight::RunNotActive,
        CoordError::RunTerminal(_) => Sight::RunTerminal,
        CoordError::RunUnfinished(_) => Sight::RunUnfinished,
        CoordError::RunPaused(_) => Sight::RunPaused,
        CoordError::ShardTerminal(_) => Sight::ShardTerminal,
        CoordError::NotParked(_) => Sight::NotParked,
        CoordError::StaleFence(_) => Sight::StaleFence,
        CoordError::LeaseExpired(_) => Sight::LeaseExpired,
        CoordError::AlreadyLeased(_) => Sight::AlreadyLeased,
        CoordError::CheckpointMissingKey(_) => Sight::CheckpointMissingKey,
        CoordError::CursorRegression(_) => Sight::CursorRegression,
        CoordError::CursorOutOfBounds(_) => Sight::CursorOutOfBounds,
        CoordError::SplitInvalid(_) => Sight::SplitInvalid,
        // Nothing here is missing, too large, throttled or made twice, no number runs out, no run
        // has a name, and nobody asks for a split; a shard that parks itself is an answer, not a
        // refusal.
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
