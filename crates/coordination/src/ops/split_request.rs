//! Requesting a part of a shard from its holder, and declining such a request.

use shardwright_contracts::LogicalTime;

use super::emit;
use crate::error::reason::{NotLeased, SplitAlreadyRequested, SplitDeclined, SplitRequestOver};
use crate::error::{DeclineError, SplitRequestError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, check_run, check_status, check_tenant_of, validate_lease};
use crate::lease::OwnerLiveness;
use crate::operation::{DeclineSplit, RequestSplit};
use crate::record::ShardHead;
use crate::restore::SplitRequest;

/// The split request to a shard's holder. It is stored apart from the shard's progress, so it
/// never conflicts with the holder's checkpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SplitRequestSlot {
    /// The request that waits for an answer.
    pub open: Option<SplitRequest>,
    /// Requests are refused before this time, because the holder declined one.
    pub not_before: Option<LogicalTime>,
}

impl SplitRequestSlot {
    /// The slot without its open request: the holder has split, or the requester has sent a request
    /// to another holder. `not_before` stays.
    #[must_use]
    pub const fn answered(self) -> Self {
        Self { open: None, not_before: self.not_before }
    }

    /// The request that waits for an answer at `now`.
    #[must_use]
    pub fn open_at(&self, now: LogicalTime) -> Option<SplitRequest> {
        self.open.filter(|request| now < request.expires_at)
    }
}

/// Whether the shard has a live holder.
fn is_held<const LOG: usize>(context: &Context<'_>, head: &ShardHead<LOG>) -> bool {
    let holder = head.holder_at(context.now, context.run.fence_floor);
    holder.is_some() && context.holder != OwnerLiveness::Gone
}

/// The open request to a shard's holder. It ends with the holder's lease.
#[must_use]
pub fn open_request<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &SplitRequestSlot,
) -> Option<SplitRequest> {
    slot.open_at(context.now).filter(|_| is_held(context, head))
}

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
    slot.open = Some(SplitRequest { requester, requested_at: context.now, expires_at });
    emit(context, events, || EventKind::SplitRequested { shard, requester });
    Ok(())
}

/// Declines the open request, and further ones for `pause_ms`. Emits `SplitDeclined`.
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
