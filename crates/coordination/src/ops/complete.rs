use super::{assert_sound, cursor as cursor_rules, emit};
use crate::error::CompleteError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit};
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::operation::Complete;
use crate::payload;
use crate::record::ShardState;
use crate::status::ShardStatus;

/// Finishes a shard with its last cursor and ends the lease. A shard without items is finished
/// with the initial cursor. Emits `ShardCompleted`.
pub fn complete<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &Complete<&[u8]>,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, CompleteError> {
    let Complete { ref lease, op, cursor } = *request;
    let attempt = payload::cursor(OpKind::Complete, op, cursor);
    match admit::<LOG, CompleteError>(context, shard.head(), lease, attempt)? {
        Admission::Replay => return Ok(IdempotentOutcome::Replayed(())),
        Admission::Execute => {}
    }
    cursor_rules::check::<LOG, CompleteError>(shard, cursor)?;

    shard.set_cursor(cursor)?;
    let head = shard.head_mut();
    head.status = ShardStatus::Done;
    head.lease = None;
    head.fruitless_acquires = 0;
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardCompleted { shard: id });
    Ok(IdempotentOutcome::Executed(()))
}
