use shardwright_contracts::limits::MAX_PARK_DETAIL_SIZE;

use super::{assert_sound, emit};
use crate::error::ParkError;
use crate::error::reason::ParkDetailTooLarge;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Admission, Context, admit};
use crate::op_log::IdempotentOutcome;
use crate::operation::ParkShard;
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
