//! Claiming: taking whichever shard of a run can be had.

use std::collections::BTreeSet;

use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId, WorkerId};

use crate::error::reason::NoneAvailable;
use crate::error::{AcquireError, ClaimError};
use crate::operation::Claim;
use crate::restore::{AcquireResultView, AcquireScratch};
use crate::traits::{CoordinationBackend, RunManagement, execute};

/// Claiming any available shard of a run.
pub trait ShardClaiming: CoordinationBackend {
    /// Acquires some shard of the run for `worker`, or says when to try again.
    fn claim_next_available<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError> {
        let state = execute(self, now, tenant, Claim { run, worker })?;
        Ok(scratch.lend(&state))
    }
}

/// Everything that a backend can do.
pub trait CoordinationFacade: CoordinationBackend + RunManagement + ShardClaiming {}

impl<B: CoordinationBackend + RunManagement + ShardClaiming> CoordinationFacade for B {}

/// A claim on its way along candidates, of which none could be acquired so far.
#[derive(Debug, Default)]
pub struct ClaimWalk {
    earliest_deadline: Option<LogicalTime>,
    /// Those that were passed over and stay in a list of what could be acquired.
    passed: BTreeSet<ShardId>,
}

/// Why a claim goes on to the next candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedOver {
    /// Somebody holds this one until then.
    HeldUntil(LogicalTime),
    /// It is over, or not there: what offered it, or what refused it, is out of date.
    LookAgain,
    /// It had failed too often, and is parked now.
    Parked,
    /// Its fence can rise no more, so that nobody will ever have it.
    WornOut,
}

impl ClaimWalk {
    /// Nothing was tried yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { earliest_deadline: None, passed: BTreeSet::new() }
    }

    /// Whether a candidate was passed over and would be again.
    #[must_use]
    pub fn has_passed(&self, shard: ShardId) -> bool {
        self.passed.contains(&shard)
    }

    /// How many candidates to ask for where those that were passed over may come again: so many
    /// that there are always as many new ones, and all are asked for in few steps.
    #[must_use]
    pub fn limit(&self, at_a_time: usize) -> usize {
        at_a_time.max(2 * self.passed.len())
    }

    /// What a claim makes of a candidate that could not be acquired: it goes on to the next one; or
    /// it ends, since the next would fare no better.
    pub fn pass_over(
        &mut self,
        shard: ShardId,
        refusal: AcquireError,
    ) -> Result<PassedOver, ClaimError> {
        let why = match refusal {
            AcquireError::AlreadyLeased(leased) => PassedOver::HeldUntil(leased.deadline),
            AcquireError::ShardTerminal(_) | AcquireError::ShardNotFound(_) => {
                PassedOver::LookAgain
            }
            AcquireError::RetriesExhausted(_) => PassedOver::Parked,
            AcquireError::FenceExhausted(_) => PassedOver::WornOut,
            AcquireError::TenantMismatch(reason) => return Err(reason.into()),
            AcquireError::RunNotActive(reason) => return Err(reason.into()),
            AcquireError::RunPaused(reason) => return Err(reason.into()),
            AcquireError::BackendError(reason) => return Err(reason.into()),
        };
        if let PassedOver::HeldUntil(deadline) = why {
            self.earliest_deadline = earliest(self.earliest_deadline, Some(deadline));
        }
        if why != PassedOver::Parked {
            self.passed.insert(shard);
        }
        Ok(why)
    }

    /// What a claim tells that found nothing. `known` is the end of the first lease that is known
    /// otherwise.
    #[must_use]
    pub fn none(&self, known: Option<LogicalTime>) -> NoneAvailable {
        NoneAvailable { earliest_deadline: earliest(self.earliest_deadline, known) }
    }
}

/// The order in which a worker tries candidates: from one that depends on the worker on, so that
/// many who come at the same time try different ones first.
pub fn rotated<T>(candidates: &[T], worker: WorkerId) -> impl Iterator<Item = &T> {
    let first = worker.as_raw().checked_rem(candidates.len() as u64).unwrap_or_default();
    let (before, from) = candidates.split_at_checked(first as usize).unwrap_or_default();
    from.iter().chain(before)
}

fn earliest(one: Option<LogicalTime>, other: Option<LogicalTime>) -> Option<LogicalTime> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{FenceEpoch, ShardKey};

    use super::*;
    use crate::error::reason::{
        AlreadyLeased, RetriesExhausted, RunPaused, ShardNotFound, ShardTerminal,
    };
    use crate::status::ShardStatus;

    fn at(millis: u64) -> LogicalTime {
        LogicalTime::from_millis(millis)
    }

    fn held_until(millis: u64) -> AcquireError {
        let current_owner = WorkerId::from_raw(9);
        AlreadyLeased { current_owner, deadline: at(millis) }.into()
    }

    #[test]
    fn a_claim_goes_on_past_what_it_cannot_have_and_tells_which_lease_ends_first() {
        let (run, shard) = (RunId::from_raw(1), ShardId::from_raw(2));
        let terminal = ShardTerminal { shard, status: ShardStatus::Done };
        let exhausted = FenceEpoch::from_raw(u64::MAX).unwrap();
        let exhausted = exhausted.next_at_least(FenceEpoch::INITIAL).unwrap_err();
        let mut walk = ClaimWalk::new();
        assert_eq!(walk.none(None).earliest_deadline, None);
        assert_eq!(walk.none(Some(at(7))).earliest_deadline, Some(at(7)));
        for (refusal, expected) in [
            (held_until(6), PassedOver::HeldUntil(at(6))),
            (held_until(5), PassedOver::HeldUntil(at(5))),
            (held_until(8), PassedOver::HeldUntil(at(8))),
            (terminal.into(), PassedOver::LookAgain),
            (ShardNotFound { key: ShardKey::new(run, shard) }.into(), PassedOver::LookAgain),
            (RetriesExhausted { shard, attempts: 1 }.into(), PassedOver::Parked),
            (exhausted.into(), PassedOver::WornOut),
        ] {
            assert_eq!(walk.pass_over(shard, refusal), Ok(expected));
        }
        assert_eq!(walk.none(Some(at(7))).earliest_deadline, Some(at(5)));
        assert_eq!(walk.none(Some(at(4))).earliest_deadline, Some(at(4)));
        let paused = RunPaused { run };
        assert_eq!(walk.pass_over(shard, paused.into()), Err(ClaimError::RunPaused(paused)));
    }

    #[test]
    fn a_claim_asks_for_few_however_many_it_has_parked() {
        let mut walk = ClaimWalk::new();
        for id in 0..1_000 {
            let shard = ShardId::from_raw(id);
            let parked = RetriesExhausted { shard, attempts: 1 };
            walk.pass_over(shard, parked.into()).unwrap();
        }
        assert_eq!(walk.limit(16), 16);
        // Those that stay in the list are asked for again, and as many new ones with them.
        (0..100).for_each(|id| _ = walk.pass_over(ShardId::from_raw(id), held_until(9)).unwrap());
        assert_eq!(walk.limit(16), 200);
    }
}
