use super::{assert_sound, emit};
use crate::error::ReleaseError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit};
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::operation::Release;
use crate::payload;
use crate::record::ShardState;

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
    head.fruitless_acquires = head.fruitless_acquires.saturating_sub(1);
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardReleased { shard: id });
    Ok(IdempotentOutcome::Executed(()))
}
