use shardwright_contracts::LogicalTime;

use crate::guard::Context;
use crate::lease::OwnerLiveness;
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
    /// The slot when nobody waits any more, because the holder has split or the requester has asked
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

/// Whether there is a holder who can be asked.
pub(super) fn is_held<const LOG: usize>(context: &Context<'_>, head: &ShardHead<LOG>) -> bool {
    let holder = head.holder_at(context.now, context.run.fence_floor);
    holder.is_some() && context.holder != OwnerLiveness::Gone
}

/// The request to a shard's holder that waits for an answer. When the holder's time is up, nobody
/// is left to give one.
#[must_use]
pub fn open_request<const LOG: usize>(
    context: &Context<'_>,
    head: &ShardHead<LOG>,
    slot: &SplitRequestSlot,
) -> Option<SplitRequest> {
    slot.open_at(context.now).filter(|_| is_held(context, head))
}
