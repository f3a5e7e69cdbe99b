use shardwright_contracts::LogicalTime;

use super::emit;
use crate::error::reason::{NotLeased, SplitAlreadyRequested, SplitDeclined};
use crate::error::{DeclineError, SplitRequestError};
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, check_run, check_status, check_tenant_of, validate_lease};
use crate::lease::{Lease, OwnerLiveness};
use crate::planted::{self, Defect};
use crate::record::ShardHead;
use crate::restore::SplitRequest;

/// What has been asked of a shard's holder. Kept apart from the shard's progress, so that asking
/// never gets in the holder's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SplitRequestSlot {
    /// The request that waits for an answer.
    pub open: Option<SplitRequest>,
    /// Nobody asks before this time, because the holder declined.
    pub not_before: Option<LogicalTime>,
}

impl SplitRequestSlot {
    /// The slot when nobody waits any more, because the holder has split or the asker has asked
    /// another one: a time before which nobody asks stands.
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

/// Asks for a part of a shard. There is one open request per shard and, which `open_elsewhere`
/// tells of the run's other shards, one per asker. Whoever asks the same holder again, because an
/// answer got lost or patience has grown, has one request still; whoever asks another holder once
/// the first request has expired withdraws that one, which the backend does with
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
    check_run(context.gate)?;
    check_status(head)?;
    let shard = head.key.shard;
    let is_gone = context.holder == OwnerLiveness::Gone;
    if is_gone || head.holder_at(context.now, context.gate.fence_floor).is_none() {
        return Err(NotLeased { shard }.into());
    }
    let open_elsewhere = open_elsewhere && !planted::is_active(Defect::AskerAsksTwice);
    let is_pushy = planted::is_active(Defect::RequestOverwritten);
    let by_another = |open: SplitRequest| open.asker != request.asker && !is_pushy;
    if open_elsewhere || slot.open_at(context.now).is_some_and(by_another) {
        return Err(SplitAlreadyRequested { shard }.into());
    }
    let declined = slot.not_before.filter(|time| context.now < *time);
    if let Some(not_before) = declined
        && !planted::is_active(Defect::DeclineForgotten)
    {
        return Err(SplitDeclined { shard, not_before }.into());
    }
    slot.open = Some(request);
    emit(context, events, || EventKind::SplitRequested { shard, asker: request.asker });
    Ok(())
}

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
