//! Claiming: acquiring any available shard of a run.

use std::collections::BTreeSet;

use shardwright_contracts::{LogicalTime, RunId, ShardId, TenantId, WorkerId};

use crate::error::reason::NoneAvailable;
use crate::error::{AcquireError, ClaimError};
use crate::operation::Claim;
use crate::restore::{AcquireResultView, AcquireScratch};
use crate::traits::{CoordinationBackend, RunManagement, execute};

/// Claiming any available shard of a run.
pub trait ShardClaiming: CoordinationBackend {
    /// Acquires any available shard of the run for `worker`, or reports when to retry.
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

/// All operations of a backend.
pub trait CoordinationFacade: CoordinationBackend + RunManagement + ShardClaiming {}

impl<B: CoordinationBackend + RunManagement + ShardClaiming> CoordinationFacade for B {}

/// The progress of a claim along its candidates, none of which it could acquire so far.
#[derive(Debug)]
pub struct CandidateWalk {
    skew_ms: u64,
    earliest_deadline: Option<LogicalTime>,
    /// Skipped candidates that a later list may contain again.
    skipped: BTreeSet<ShardId>,
}

/// Why a claim skips a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipped {
    /// Another worker holds the shard until then.
    HeldUntil(LogicalTime),
    /// The shard is terminal or missing: the list of candidates, or the refusal, is out of date.
    Stale,
    /// The shard failed too often and is parked now.
    Parked,
    /// The shard's fence cannot rise any more, so the shard cannot be acquired again.
    FenceExhausted,
}

impl CandidateWalk {
    /// A walk before its first candidate. A lease is respected for `skew_ms` after its deadline.
    #[must_use]
    pub const fn new(skew_ms: u64) -> Self {
        Self { skew_ms, earliest_deadline: None, skipped: BTreeSet::new() }
    }

    /// Whether a candidate was skipped and would be skipped again.
    #[must_use]
    pub(crate) fn has_skipped(&self, shard: ShardId) -> bool {
        self.skipped.contains(&shard)
    }

    /// How many candidates to list next, at least `at_a_time`. Skipped ones may be listed again,
    /// so the limit doubles their number: each list has room for as many new candidates.
    #[must_use]
    pub fn limit(&self, at_a_time: usize) -> usize {
        at_a_time.max(2 * self.skipped.len())
    }

    /// Skips a candidate that could not be acquired. Fails if the next candidate would be refused
    /// for the same reason.
    pub fn skip(&mut self, shard: ShardId, refusal: AcquireError) -> Result<Skipped, ClaimError> {
        let why = match refusal {
            AcquireError::AlreadyLeased(leased) => Skipped::HeldUntil(leased.deadline),
            AcquireError::ShardTerminal(_) | AcquireError::ShardNotFound(_) => Skipped::Stale,
            AcquireError::RetriesExhausted(_) => Skipped::Parked,
            AcquireError::FenceExhausted(_) => Skipped::FenceExhausted,
            AcquireError::TenantMismatch(reason) => return Err(reason.into()),
            AcquireError::RunNotActive(reason) => return Err(reason.into()),
            AcquireError::RunPaused(reason) => return Err(reason.into()),
            AcquireError::BackendError(reason) => return Err(reason.into()),
        };
        if let Skipped::HeldUntil(deadline) = why {
            let over_at = deadline.saturating_add(self.skew_ms);
            self.earliest_deadline = earliest(self.earliest_deadline, Some(over_at));
        }
        if why != Skipped::Parked {
            self.skipped.insert(shard);
        }
        Ok(why)
    }

    /// The refusal of a claim that found nothing. `known` is the earliest deadline from another
    /// source.
    #[must_use]
    pub fn none(&self, known: Option<LogicalTime>) -> NoneAvailable {
        NoneAvailable { earliest_deadline: earliest(self.earliest_deadline, known) }
    }
}

/// The order in which a worker tries candidates. It starts at a candidate that depends on the
/// worker, so workers that claim at the same time start with different ones.
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
    fn a_claim_skips_candidates_and_reports_the_earliest_deadline() {
        let (run, shard) = (RunId::from_raw(1), ShardId::from_raw(2));
        let terminal = ShardTerminal { shard, status: ShardStatus::Done };
        let exhausted = FenceEpoch::from_raw(u64::MAX).unwrap();
        let exhausted = exhausted.next_at_least(FenceEpoch::INITIAL).unwrap_err();
        let mut walk = CandidateWalk::new(0);
        assert_eq!(walk.none(None).earliest_deadline, None);
        assert_eq!(walk.none(Some(at(7))).earliest_deadline, Some(at(7)));
        for (refusal, expected) in [
            (held_until(6), Skipped::HeldUntil(at(6))),
            (held_until(5), Skipped::HeldUntil(at(5))),
            (held_until(8), Skipped::HeldUntil(at(8))),
            (terminal.into(), Skipped::Stale),
            (ShardNotFound { key: ShardKey::new(run, shard) }.into(), Skipped::Stale),
            (RetriesExhausted { shard, attempts: 1 }.into(), Skipped::Parked),
            (exhausted.into(), Skipped::FenceExhausted),
        ] {
            assert_eq!(walk.skip(shard, refusal), Ok(expected));
        }
        assert_eq!(walk.none(Some(at(7))).earliest_deadline, Some(at(5)));
        assert_eq!(walk.none(Some(at(4))).earliest_deadline, Some(at(4)));
        let paused = RunPaused { run };
        assert_eq!(walk.skip(shard, paused.into()), Err(ClaimError::RunPaused(paused)));
    }

    #[test]
    fn claim_is_retried_after_the_skew_allowance() {
        let mut walk = CandidateWalk::new(3);
        let skipped = walk.skip(ShardId::from_raw(2), held_until(6));
        assert_eq!(skipped, Ok(Skipped::HeldUntil(at(6))));
        assert_eq!(walk.none(None).earliest_deadline, Some(at(9)));
    }

    #[test]
    fn parked_candidates_do_not_raise_the_list_limit() {
        let mut walk = CandidateWalk::new(0);
        for id in 0..1_000 {
            let shard = ShardId::from_raw(id);
            let parked = RetriesExhausted { shard, attempts: 1 };
            walk.skip(shard, parked.into()).unwrap();
        }
        assert_eq!(walk.limit(16), 16);
        // Held candidates stay listed, so each list must have room for as many new ones.
        (0..100).for_each(|id| _ = walk.skip(ShardId::from_raw(id), held_until(9)).unwrap());
        assert_eq!(walk.limit(16), 200);
    }
}
