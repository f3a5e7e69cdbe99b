use shardwright_contracts::LogicalTime;

use super::{SplitRequestSlot, emit};
use crate::error::DeclineError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, validate_lease};
use crate::lease::Lease;
use crate::record::ShardHead;

/// Declines whatever has been asked, and what would be before `not_before`. Emits `SplitDeclined`.
pub fn decline_split<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &mut SplitRequestSlot,
    lease: &Lease,
    not_before: LogicalTime,
    events: &mut EventCollector,
) -> Result<(), DeclineError> {
    validate_lease(context, head, lease)?;
    slot.open = None;
    slot.not_before = Some(not_before);
    let shard = head.key.shard;
    emit(context, events, || EventKind::SplitDeclined { shard, not_before });
    Ok(())
}
