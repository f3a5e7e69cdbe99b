//! Claiming: taking whichever shard of a run can be had.

use std::collections::BTreeSet;

use shardwright_contracts::{LogicalTime, RunId, ShardKey, TenantId, WorkerId};

use crate::error::reason::NoneAvailable;
use crate::error::{AcquireError, ClaimError, RunQueryError};
use crate::lease::Lease;
use crate::planted::{self, Defect};
use crate::restore::{AcquireResultView, AcquireScratch, CapacityHint};
use crate::traits::{CoordinationBackend, RunManagement};

/// How many candidates are looked at before the next ones are asked for.
const CANDIDATES_AT_A_TIME: usize = 16;

/// Taking whichever shard of a run can be had.
pub trait ShardClaiming {
    /// Acquires some shard of the run for `worker`, or says when to try again.
    fn claim_next_available<'s>(
        &mut self,
        now: LogicalTime,
        tenant: TenantId,
        run: RunId,
        worker: WorkerId,
        scratch: &'s mut AcquireScratch,
    ) -> Result<AcquireResultView<'s>, ClaimError>;
}

/// Everything that a backend can do.
pub trait CoordinationFacade: CoordinationBackend + RunManagement + ShardClaiming {}

impl<B: CoordinationBackend + RunManagement + ShardClaiming> CoordinationFacade for B {}

/// Finds a shard of the run that `worker` can acquire, and acquires it into `scratch`.
///
/// Looking and acquiring are two steps, and somebody else may come between: then the next
/// candidate is tried. The acquire decides; the list of candidates is only a hint.
pub(crate) fn claim(
    backend: &mut (impl CoordinationBackend + RunManagement),
    now: LogicalTime,
    tenant: TenantId,
    run: RunId,
    worker: WorkerId,
    scratch: &mut AcquireScratch,
) -> Result<(Lease, CapacityHint), ClaimError> {
    let mut candidates = Vec::with_capacity(CANDIDATES_AT_A_TIME);
    let mut earliest_deadline = None;
    let mut refused = BTreeSet::new();
    loop {
        let limit = refused.len() + CANDIDATES_AT_A_TIME;
        let found = backend
            .collect_claim_candidates_into(now, tenant, run, worker, limit, &mut candidates)
            .map_err(|error| match error {
                RunQueryError::RunNotFound(reason) => ClaimError::from(reason),
                RunQueryError::TenantMismatch(reason) => reason.into(),
                RunQueryError::BackendError(reason) => reason.into(),
            })?;
        earliest_deadline = earliest(earliest_deadline, found.earliest_deadline);
        candidates.retain(|candidate| !refused.contains(candidate));
        if candidates.is_empty() {
            return Err(NoneAvailable { earliest_deadline }.into());
        }
        for &shard in &candidates {
            let key = ShardKey::new(run, shard);
            match backend.acquire_and_restore_into(now, tenant, key, worker, scratch) {
                Ok(acquired) => return Ok((acquired.lease, acquired.capacity)),
                Err(refusal) => {
                    earliest_deadline = earliest(earliest_deadline, pass_over(refusal)?);
                }
            }
        }
        refused.extend(candidates.iter().copied());
    }
}

/// The order in which a worker tries candidates: from one that depends on the worker on, so that
/// many who come at the same time try different ones first.
pub fn rotated<T>(candidates: &[T], worker: WorkerId) -> impl Iterator<Item = &T> {
    let turn = if planted::is_active(Defect::RotationStuck) { 0 } else { worker.as_raw() };
    let first = turn.checked_rem(candidates.len() as u64).unwrap_or_default();
    let (before, from) = candidates.split_at_checked(first as usize).unwrap_or_default();
    from.iter().chain(before)
}

/// What a claim makes of a candidate that could not be acquired: it goes on to the next one, and
/// learns when this one may be had if somebody holds it; or it ends, since the next would fare no
/// better.
pub fn pass_over(refusal: AcquireError) -> Result<Option<LogicalTime>, ClaimError> {
    match refusal {
        AcquireError::AlreadyLeased(leased) => Ok(Some(leased.deadline)),
        AcquireError::ShardTerminal(_)
        | AcquireError::ShardNotFound(_)
        | AcquireError::RetriesExhausted(_)
        | AcquireError::FenceExhausted(_) => Ok(None),
        AcquireError::TenantMismatch(reason) => Err(reason.into()),
        AcquireError::RunNotActive(reason) => Err(reason.into()),
        AcquireError::RunPaused(reason) => Err(reason.into()),
        AcquireError::BackendError(reason) => Err(reason.into()),
    }
}

fn earliest(one: Option<LogicalTime>, other: Option<LogicalTime>) -> Option<LogicalTime> {
    one.into_iter().chain(other).min()
}
