use super::{SplitRequestSlot, emit};
use crate::error::DeclineError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, validate_lease};
use crate::operation::DeclineSplit;
use crate::record::ShardHead;

/// Declines the open request, and others until the pause is over. Emits `SplitDeclined`.
pub fn decline_split<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &mut SplitRequestSlot,
    request: &DeclineSplit,
    events: &mut EventCollector,
) -> Result<(), DeclineError> {
    validate_lease(context, head, &request.lease)?;
    let not_before = context.now.saturating_add(request.pause_ms);
    slot.open = None;
    slot.not_before = Some(not_before);
    let shard = head.key.shard;
    emit(context, events, || EventKind::SplitDeclined { shard, not_before });
    Ok(())
}
