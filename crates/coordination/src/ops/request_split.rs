use super::split_request::is_held;
use super::{SplitRequestSlot, emit, open_request};
use crate::error::SplitRequestError;
use crate::error::reason::{NotLeased, SplitAlreadyRequested, SplitDeclined, SplitRequestOver};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, check_run, check_status, check_tenant_of};
use crate::operation::RequestSplit;
use crate::record::ShardHead;
use crate::restore::SplitRequest;

/// Requests a part of a shard from its holder.
///
/// A shard has one open request, and so has a requester within a run: `open_elsewhere` is whether
/// it waits for the holder of another shard. Repeating a request only moves its expiry. A request
/// to another holder, once the first has expired, withdraws the first: the backend does so with
/// [`SplitRequestSlot::answered`].
///
/// Emits `SplitRequested`.
pub fn request_split<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &mut SplitRequestSlot,
    request: &RequestSplit,
    open_elsewhere: bool,
    events: &mut EventCollector,
) -> Result<(), SplitRequestError> {
    check_tenant_of(context.tenant, head.tenant)?;
    check_run(context.run)?;
    check_status(head)?;
    let shard = head.key.shard;
    if !is_held(context, head) {
        return Err(NotLeased { shard }.into());
    }
    let requester = request.requester;
    let expires_at = context.now.saturating_add(request.patience_ms);
    if expires_at <= context.now {
        return Err(SplitRequestOver { shard, expires_at }.into());
    }
    let by_another = |open: SplitRequest| open.requester != requester;
    if open_elsewhere || open_request(context, head, slot).is_some_and(by_another) {
        return Err(SplitAlreadyRequested { shard }.into());
    }
    let declined = slot.not_before.filter(|time| context.now < *time);
    if let Some(not_before) = declined {
        return Err(SplitDeclined { shard, not_before }.into());
    }
    slot.open = Some(SplitRequest { requester, asked_at: context.now, expires_at });
    emit(context, events, || EventKind::SplitRequested { shard, requester });
    Ok(())
}
