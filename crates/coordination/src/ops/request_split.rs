use super::split_request::is_held;
use super::{SplitRequestSlot, emit, open_request};
use crate::error::SplitRequestError;
use crate::error::reason::{NotLeased, SplitAlreadyRequested, SplitDeclined, SplitRequestOver};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, check_run, check_status, check_tenant_of};
use crate::record::ShardHead;
use crate::restore::SplitRequest;

/// Asks for a part of a shard, until a time that is still to come. There is one open request per
/// shard and, which `open_elsewhere` tells of the run's other shards, one per requester in a run.
/// Whoever asks the same holder again, because an answer got lost or patience has grown, has one
/// request still; whoever asks another holder once the first request is no longer open withdraws
/// that one, which the backend does with
/// [`SplitRequestSlot::answered`].
///
/// Emits `SplitRequested`.
pub fn request_split<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &mut SplitRequestSlot,
    request: SplitRequest,
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
    let expires_at = request.expires_at;
    if expires_at <= context.now {
        return Err(SplitRequestOver { shard, expires_at }.into());
    }
    let by_another = |open: SplitRequest| open.requester != request.requester;
    if open_elsewhere || open_request(context, head, slot).is_some_and(by_another) {
        return Err(SplitAlreadyRequested { shard }.into());
    }
    let declined = slot.not_before.filter(|time| context.now < *time);
    if let Some(not_before) = declined {
        return Err(SplitDeclined { shard, not_before }.into());
    }
    slot.open = Some(request);
    emit(context, events, || EventKind::SplitRequested { shard, requester: request.requester });
    Ok(())
}
