//! Advancing a shard's cursor: checkpoints and the completion of a shard.

use shardwright_contracts::{CursorInputError, CursorRegression, CursorUpdate};

use super::{assert_sound, emit};
use crate::error::reason::{
    CheckpointMissingKey, CursorKeyTooLarge, CursorOutOfBounds, CursorTokenTooLarge,
};
use crate::error::{CheckpointError, CompleteError};
use crate::events::{EventCollector, EventKind, RedactedKey};
use crate::guard::{Admission, Context, admit};
use crate::op_log::{IdempotentOutcome, OpKind};
use crate::operation::{Checkpoint, Complete};
use crate::payload;
use crate::record::ShardState;
use crate::status::ShardStatus;

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
    check_cursor::<LOG, CheckpointError>(shard, cursor)?;

    let made_progress = shard.cursor().last_key() < cursor.last_key();
    shard.set_cursor(cursor)?;
    let head = shard.head_mut();
    if made_progress {
        head.acquires_without_progress = 0;
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
    check_cursor::<LOG, CompleteError>(shard, cursor)?;

    shard.set_cursor(cursor)?;
    let head = shard.head_mut();
    head.status = ShardStatus::Done;
    head.lease = None;
    head.acquires_without_progress = 0;
    head.op_log.record(attempt, context.now);
    assert_sound(head.check_invariants());
    let id = head.key.shard;
    emit(context, events, || EventKind::ShardCompleted { shard: id });
    Ok(IdempotentOutcome::Executed(()))
}

/// Checks form, sizes, direction and bounds of a shard's next cursor.
fn check_cursor<const LOG: usize, E>(
    shard: &impl ShardState<LOG>,
    cursor: CursorUpdate<'_>,
) -> Result<(), E>
where
    E: From<CheckpointMissingKey>
        + From<CursorKeyTooLarge>
        + From<CursorTokenTooLarge>
        + From<CursorRegression>
        + From<CursorOutOfBounds>,
{
    cursor.validate().map_err(|error| match error {
        CursorInputError::EmptyLastKey | CursorInputError::TokenWithoutKey => {
            E::from(CheckpointMissingKey)
        }
        CursorInputError::KeyTooLarge { size, max } => CursorKeyTooLarge { size, max }.into(),
        CursorInputError::TokenTooLarge { size, max } => CursorTokenTooLarge { size, max }.into(),
    })?;
    shard.cursor().check_advance(cursor)?;
    if !cursor.is_within(shard.spec()) {
        return Err(CursorOutOfBounds.into());
    }
    Ok(())
}
