use super::{assert_sound, cursor as cursor_rules, emit};
use crate::error::CheckpointError;
use crate::error::reason::CheckpointMissingKey;
use crate::events::{EventCollector, EventKind, RedactedKey};
use crate::guard::{Admission, Context, admit};
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::operation::Checkpoint;
use crate::payload;
use crate::record::ShardState;

/// Moves a shard's cursor to a key, never backwards. Emits `ShardCheckpointed`.
pub fn checkpoint<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &Checkpoint<&[u8]>,
    events: &mut EventCollector,
) -> Result<IdempotentOutcome<()>, CheckpointError> {
    let Checkpoint { ref lease, op, cursor } = *request;
    let attempt = payload::cursor(OpKind::Checkpoint, op, cursor);
    match admit::<LOG, CheckpointError>(context, shard.head(), lease, attempt)? {
        Admission::Replay => return Ok(IdempotentOutcome::Replayed(())),
        Admission::Execute => {}
    }
    if cursor.is_initial() {
        return Err(CheckpointMissingKey.into());
    }
    cursor_rules::check::<LOG, CheckpointError>(shard, cursor)?;

    let made_progress = shard.cursor().last_key() < cursor.last_key();
    shard.set_cursor(cursor)?;
    let head = shard.head_mut();
    if made_progress {
        head.fruitless_acquires = 0;
    }
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardCheckpointed {
        shard: id,
        last_key: RedactedKey(cursor.last_key().map(Into::into)),
    });
    Ok(IdempotentOutcome::Executed(()))
}
