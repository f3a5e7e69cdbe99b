//! Parking a shard, and making it active again.

use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;

use super::{assert_sound, emit};
use crate::error::reason::{NotParked, ParkDetailTooLarge, RunTerminal};
use crate::error::{ParkError, UnparkError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit, check_run, check_tenant_of};
use crate::op_log::{IdempotentOutcome, OpKind, check_op_idempotency};
use crate::operation::{ParkShard, UnparkShard};
use crate::payload;
use crate::record::{Park, ShardState};
use crate::status::ShardStatus;

/// Stops a shard with a reason and details, until an operator unparks it, and ends the lease.
/// Emits `ShardParked`.
pub fn park<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &ParkShard<&[u8]>,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, ParkError> {
    let ParkShard { ref lease, reason, op, detail } = *request;
    let attempt = payload::park(op, reason, detail);
    match admit::<LOG, ParkError>(context, shard.head(), lease, attempt)? {
        Admission::Replay => return Ok(IdempotentOutcome::Replayed(())),
        Admission::Execute => {}
    }
    if detail.len() > MAX_PARK_DETAIL_SIZE {
        let (size, max) = (detail.len(), MAX_PARK_DETAIL_SIZE);
        return Err(ParkDetailTooLarge { size, max }.into());
    }

    shard.set_park(Park { reason, detail: detail.into() })?;
    let head = shard.head_mut();
    head.status = ShardStatus::Parked;
    head.lease = None;
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardParked { shard: id, reason });
    Ok(IdempotentOutcome::Executed(()))
}

/// Makes a parked shard active again, with a new fence and no failed attempts. It is an operator's
/// decision and needs no lease. Emits `ShardUnparked`.
pub fn unpark<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &UnparkShard,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, UnparkError> {
    let (run, head) = (context.run, shard.head());
    check_tenant_of(context.tenant, head.tenant)?;
    let attempt = payload::shard(OpKind::Unpark, request.op, head.key);
    if check_op_idempotency(&head.op_log, attempt)?.is_some() {
        return Ok(IdempotentOutcome::Replayed(()));
    }
    if run.status.is_terminal() {
        return Err(RunTerminal { run: run.run, status: run.status }.into());
    }
    check_run(run)?;
    if head.status != ShardStatus::Parked {
        return Err(NotParked { shard: head.key.shard, status: head.status }.into());
    }
    let fence = head.fence.next_at_least(run.fence_floor)?;

    shard.clear_park();
    let head = shard.head_mut();
    head.status = ShardStatus::Active;
    head.fence = fence;
    head.acquires_without_progress = 0;
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardUnparked { shard: id, new_fence_epoch: fence });
    Ok(IdempotentOutcome::Executed(()))
}
