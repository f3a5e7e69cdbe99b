//! Acquiring a shard, extending its lease and giving the lease back.

use shardwright_contracts::WorkerId;

use super::{assert_sound, emit};
use crate::error::reason::{AlreadyLeased, RetriesExhausted};
use crate::error::{AcquireError, ReleaseError, RenewError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{
    Admission, Context, admit, check_handing_out, check_status, check_tenant_of, validate_lease,
};
use crate::lease::{Lease, LeaseHolder, TakeoverTerms};
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::operation::{Release, Renew};
use crate::payload;
use crate::record::{Park, ShardState};
use crate::status::{ParkReason, ShardStatus};

/// The outcome of an acquire that was not refused. Both variants changed the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The worker owns the shard.
    Granted(Lease),
    /// The shard was acquired too often without progress, and is parked now.
    Parked(RetriesExhausted),
}

/// Gives a shard to `worker`, with a fence above all earlier ones.
///
/// A held shard can be acquired when its lease is over: see [`ShardHead::respected_holder`].
///
/// [`ShardHead::respected_holder`]: crate::ShardHead::respected_holder
///
/// Emits `ShardAcquired`, or `ShardParked` if there were too many attempts without progress.
pub fn acquire<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    worker: WorkerId,
    skew_ms: u64,
    events: &mut EventCollector,
) -> Result<Acquired, AcquireError> {
    let (run, head) = (context.run, shard.head());
    check_tenant_of(context.tenant, head.tenant)?;
    let attempts = head.acquires_without_progress;
    let is_exhausted = run.config.max_shard_retries.is_some_and(|max| attempts >= max.get());
    check_handing_out::<AcquireError>(run)?;
    check_status(head)?;
    let terms = TakeoverTerms { now: context.now, fence_floor: run.fence_floor, skew_ms };
    if let Some(holder) = head.respected_holder(&terms, context.holder) {
        let LeaseHolder { owner: current_owner, deadline } = holder;
        return Err(AlreadyLeased { current_owner, deadline }.into());
    }
    if is_exhausted {
        return Ok(park_instead(context, shard, attempts, events));
    }
    let fence = head.fence.next_at_least(run.fence_floor)?;

    let deadline = run.config.lease_until(context.now);
    let head = shard.head_mut();
    head.fence = fence;
    head.lease = Some(LeaseHolder { owner: worker, deadline });
    head.acquire_count = head.acquire_count.saturating_add(1);
    head.acquires_without_progress = head.acquires_without_progress.saturating_add(1);
    assert_sound(head.check_invariants());
    let key = head.key;
    emit(context, events, || EventKind::ShardAcquired {
        shard: key.shard,
        worker,
        fence_epoch: fence,
    });
    Ok(Acquired::Granted(Lease::new(context.tenant, key, worker, fence, deadline)))
}

fn park_instead<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    attempts: u32,
    events: &mut EventCollector,
) -> Acquired {
    let reason = ParkReason::TooManyErrors;
    // An empty detail needs no bytes, so this cannot fail.
    let _has_room = shard.set_park(Park { reason, detail: Box::default() });
    let head = shard.head_mut();
    let id = head.key.shard;
    head.status = ShardStatus::Parked;
    head.lease = None;
    assert_sound(head.check_invariants());
    emit(context, events, || EventKind::ShardParked { shard: id, reason });
    Acquired::Parked(RetriesExhausted { shard: id, attempts })
}

/// Extends a lease. Neither the fence nor the shard's progress changes.
///
/// A delayed renewal never shortens the lease. Emits `ShardLeaseRenewed`.
pub fn renew<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &Renew,
    events: &mut EventCollector,
) -> Result<Lease, RenewError> {
    let Renew { lease } = request;
    validate_lease(context, shard.head(), lease)?;

    let head = shard.head_mut();
    let until = context.run.config.lease_until(context.now);
    let deadline = head.lease.map_or(until, |holder| holder.deadline.max(until));
    head.lease = Some(LeaseHolder { owner: lease.owner(), deadline });
    assert_sound(head.check_invariants());
    let shard = head.key.shard;
    emit(context, events, || EventKind::ShardLeaseRenewed { shard, new_deadline: deadline });
    Ok(lease.renewed(deadline))
}

/// Gives a lease back, so that another worker need not wait for its deadline. The acquire that
/// granted the lease does not count as an attempt. Emits `ShardReleased`.
pub fn release<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &Release,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, ReleaseError> {
    let Release { ref lease, op } = *request;
    let attempt = payload::shard(OpKind::Release, op, shard.head().key);
    match admit::<LOG, ReleaseError>(context, shard.head(), lease, attempt)? {
        Admission::Replay => return Ok(IdempotentOutcome::Replayed(())),
        Admission::Execute => {}
    }

    let head = shard.head_mut();
    head.lease = None;
    head.acquires_without_progress = head.acquires_without_progress.saturating_sub(1);
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardReleased { shard: id });
    Ok(IdempotentOutcome::Executed(()))
}
