//! Claiming: taking whichever shard of a run can be had.

use shardwright_contracts::{LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId};

use crate::error::reason::NoneAvailable;
use crate::error::{AcquireError, ClaimError, RunQueryError};
use crate::lease::Lease;
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
    let mut refused: Vec<ShardId> = Vec::new();
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
                Err(AcquireError::AlreadyLeased(leased)) => {
                    earliest_deadline = earliest(earliest_deadline, Some(leased.deadline));
                }
                Err(
                    AcquireError::ShardTerminal(_)
                    | AcquireError::ShardNotFound(_)
                    | AcquireError::RetriesExhausted(_),
                ) => {}
                Err(AcquireError::TenantMismatch(reason)) => return Err(reason.into()),
                Err(AcquireError::RunNotActive(reason)) => return Err(reason.into()),
                Err(AcquireError::RunPaused(reason)) => return Err(reason.into()),
                Err(AcquireError::FenceExhausted(reason)) => return Err(reason.into()),
                Err(AcquireError::BackendError(reason)) => return Err(reason.into()),
            }
        }
        refused.extend_from_slice(&candidates);
    }
}

fn earliest(one: Option<LogicalTime>, other: Option<LogicalTime>) -> Option<LogicalTime> {
    one.into_iter().chain(other).min()
}
