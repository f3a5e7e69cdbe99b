use shardwright_contracts::{CursorUpdate, OpId};

use super::{assert_sound, cursor as cursor_rules, emit};
use crate::error::CompleteError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit};
use crate::lease::Lease;
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::payload;
use crate::record::ShardState;
use crate::status::ShardStatus;

/// Finishes a shard with its last cursor and gives the lease back. A shard in which nothing was
/// found is finished with the initial cursor. Emits `ShardCompleted`.
pub fn complete<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    lease: &Lease,
    cursor: CursorUpdate<'_>,
    op: OpId,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, CompleteError> {
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
