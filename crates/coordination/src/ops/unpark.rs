use super::{assert_sound, emit};
use crate::error::UnparkError;
use crate::error::reason::{NotParked, RunTerminal};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, check_run, check_tenant_of};
use crate::op_log::{IdempotentOutcome, OpKind, check_op_idempotency};
use crate::operation::UnparkShard;
use crate::payload;
use crate::record::ShardState;
use crate::status::ShardStatus;

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
    head.fruitless_acquires = 0;
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardUnparked { shard: id, new_fence_epoch: fence });
    Ok(IdempotentOutcome::Executed(()))
}
