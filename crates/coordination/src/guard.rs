//! The order in which every request is checked, written once.
//!
//! 1. **Tenant**: a request of another tenant is answered as not found.
//! 2. **Op log**: a retry is replayed, even after the lease has expired or the shard is done.
//! 3. **Run**: the shards of a run that is not active do not change.
//! 4. **Status**: a shard that is done, split or parked does not change.
//! 5. **Fence**: a worker with an older fence is refused.
//! 6. **Expiry**: a worker whose lease has expired or whose session has ended is refused.
//! 7. **Owner**: a worker with the fence of another worker is refused.

use shardwright_contracts::{LogicalTime, TenantId};

use crate::error::GuardError;
use crate::error::reason::{
    LeaseExpired, RunNotActive, RunPaused, ShardTerminal, StaleFence, TenantMismatch,
};
use crate::lease::{Lease, OwnerLiveness};
use crate::op_log::{OpAttempt, OpConflict, check_op_idempotency};
use crate::record::{RunState, ShardHead};
use crate::status::RunStatus;

/// The part of a request that is the same for every operation on a shard.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The current time.
    pub now: LogicalTime,
    /// The tenant that sent the request.
    pub tenant: TenantId,
    /// The shard's run.
    pub run: &'a RunState,
    /// What is known of the holder's session.
    pub holder: OwnerLiveness,
}

impl<'a> Context<'a> {
    /// A context without knowledge of the holder's session.
    #[must_use]
    pub const fn new(now: LogicalTime, tenant: TenantId, run: &'a RunState) -> Self {
        Self { now, tenant, run, holder: OwnerLiveness::Untracked }
    }
}

/// The decision on a request that passed the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The operation is new: check its parameters and execute it.
    Execute,
    /// The operation was executed before: return the same answer and change nothing.
    Replay,
}

/// Applies all checks to an operation of a holder.
pub(crate) fn admit<const LOG: usize, E>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    lease: &Lease,
    attempt: OpAttempt,
) -> Result<Admission, E>
where
    E: From<GuardError> + From<OpConflict>,
{
    admit_unless(context, head, lease, attempt, || Ok(false))
}

/// Like [`admit`], for an operation whose record outlives the op log. `remembered` looks that
/// record up.
pub(crate) fn admit_unless<const LOG: usize, E>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    lease: &Lease,
    attempt: OpAttempt,
    remembered: impl FnOnce() -> Result<bool, OpConflict>,
) -> Result<Admission, E>
where
    E: From<GuardError> + From<OpConflict>,
{
    check_tenant(context.tenant, head, lease)?;
    if check_op_idempotency(&head.op_log, attempt)?.is_some() || remembered()? {
        return Ok(Admission::Replay);
    }
    check_holder(context, head, lease)?;
    Ok(Admission::Execute)
}

/// Applies all checks but the op log to a request without an operation id.
pub fn validate_lease<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    lease: &Lease,
) -> Result<(), GuardError> {
    check_tenant(context.tenant, head, lease)?;
    check_holder(context, head, lease)
}

fn check_tenant<const LOG: usize>(
    tenant: TenantId,
    head: &ShardHead<LOG>,
    lease: &Lease,
) -> Result<(), GuardError> {
    check_tenant_of(tenant, head.tenant)?;
    Ok(check_tenant_of(tenant, lease.tenant())?)
}

/// Checks that a record belongs to the tenant of the request.
pub(crate) fn check_tenant_of(asking: TenantId, owning: TenantId) -> Result<(), TenantMismatch> {
    if asking != owning {
        return Err(TenantMismatch { expected: asking });
    }
    Ok(())
}

/// Checks that the shards of the run may change.
pub(crate) fn check_run(run: &RunState) -> Result<(), RunNotActive> {
    if run.status != RunStatus::Active {
        return Err(RunNotActive { run: run.run, status: run.status });
    }
    Ok(())
}

/// Whether a run of that status grants shards.
#[must_use]
pub const fn hands_out(status: RunStatus, paused: bool) -> bool {
    matches!(status, RunStatus::Active) && !paused
}

/// Checks that the run grants shards, by [`hands_out`]. The error states why not.
pub fn check_handing_out<E>(run: &RunState) -> Result<(), E>
where
    E: From<RunNotActive> + From<RunPaused>,
{
    check_run(run)?;
    if run.paused {
        return Err(RunPaused { run: run.run }.into());
    }
    Ok(())
}

/// Checks that the shard may change.
pub(crate) fn check_status<const LOG: usize>(head: &ShardHead<LOG>) -> Result<(), ShardTerminal> {
    if head.status.is_terminal() {
        return Err(ShardTerminal { shard: head.key.shard, status: head.status });
    }
    Ok(())
}

fn check_holder<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    lease: &Lease,
) -> Result<(), GuardError> {
    check_run(context.run)?;
    check_status(head)?;
    let stale = StaleFence { presented: lease.fence(), current: head.fence };
    let is_below_floor = lease.fence() < context.run.fence_floor;
    if lease.fence() != head.fence || is_below_floor {
        return Err(stale.into());
    }
    // The fence stays with a worker that released the lease until the next owner.
    let Some(holder) = head.lease else { return Err(stale.into()) };
    let is_gone = context.holder == OwnerLiveness::Gone;
    if is_gone || holder.is_expired(context.now) {
        // The end of the session ends the lease before its deadline.
        let deadline = holder.deadline.min(context.now);
        return Err(LeaseExpired { deadline, now: context.now }.into());
    }
    if holder.owner != lease.owner() {
        return Err(stale.into());
    }
    Ok(())
}
