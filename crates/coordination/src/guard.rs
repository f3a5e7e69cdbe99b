//! The order in which every request is checked, written once.
//!
//! 1. **Tenant**: a foreign request learns nothing, not even that the shard exists.
//! 2. **Op log**: a retry gets its answer, even after the lease is over or the shard is done.
//! 3. **Run**: nothing of a run that is not active changes.
//! 4. **Status**: nor does a shard that is finished, replaced or parked.
//! 5. **Fence**: a worker that another has overtaken is refused.
//! 6. **Expiry**: so is one whose time is up, or whose session has ended.
//! 7. **Owner**: and one that shows somebody else's fence.

use shardwright_contracts::{LogicalTime, TenantId};

use crate::error::GuardError;
use crate::error::reason::{
    LeaseExpired, RunNotActive, RunPaused, ShardTerminal, StaleFence, TenantMismatch,
};
use crate::lease::{Lease, OwnerLiveness};
use crate::op_log::{OpAttempt, OpConflict, check_op_idempotency};
use crate::record::{RunState, ShardHead};
use crate::status::RunStatus;

/// What is the same for every operation on a shard: whose request it is, when, in which run.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// What time it is.
    pub now: LogicalTime,
    /// Who asks.
    pub tenant: TenantId,
    /// The shard's run.
    pub run: &'a RunState,
    /// What is known of the shard's holder besides its deadline.
    pub holder: OwnerLiveness,
}

impl<'a> Context<'a> {
    /// A request of which nothing is known but when it came, from whom, and in which run.
    #[must_use]
    pub const fn new(now: LogicalTime, tenant: TenantId, run: &'a RunState) -> Self {
        Self { now, tenant, run, holder: OwnerLiveness::Untracked }
    }
}

/// What becomes of a request that passed the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new: check its parameters and carry it out.
    Execute,
    /// It was carried out before: give the answer again and change nothing.
    Replay,
}

/// Passes an operation of a lease's holder through all checks.
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

/// Like [`admit`], for an operation that leaves a trace which outlives the op log: `remembered`
/// looks for it.
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

/// Passes a request without an operation id through all checks but the op log's.
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

/// Checks that something belongs to the tenant who asks.
pub(crate) fn check_tenant_of(asking: TenantId, owning: TenantId) -> Result<(), TenantMismatch> {
    if asking != owning {
        return Err(TenantMismatch { expected: asking });
    }
    Ok(())
}

/// Checks that the run is one whose shards may change.
pub(crate) fn check_run(run: &RunState) -> Result<(), RunNotActive> {
    if run.status != RunStatus::Active {
        return Err(RunNotActive { run: run.run, status: run.status });
    }
    Ok(())
}

/// Whether a run of that status hands out shards.
#[must_use]
pub const fn hands_out(status: RunStatus, paused: bool) -> bool {
    matches!(status, RunStatus::Active) && !paused
}

/// Checks that the run hands out shards, as [`hands_out`] says, and tells why not.
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

/// Checks that the shard is one that may change.
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
    // Whoever gave the lease back keeps its fence until the next owner comes.
    let Some(holder) = head.lease else { return Err(stale.into()) };
    let is_gone = context.holder == OwnerLiveness::Gone;
    if is_gone || holder.is_expired(context.now) {
        // A lease whose session has ended is over, however long it was to last.
        let deadline = holder.deadline.min(context.now);
        return Err(LeaseExpired { deadline, now: context.now }.into());
    }
    if holder.owner != lease.owner() {
        return Err(stale.into());
    }
    Ok(())
}
