use super::{assert_sound, emit};
use crate::error::RenewError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, validate_lease};
use crate::lease::{Lease, LeaseHolder};
use crate::operation::Renew;
use crate::record::ShardState;

/// Extends a lease. Neither the fence nor the shard's progress changes.
///
/// A delayed renewal never shortens the lease. Emits `ShardLeaseRenewed`.
pub fn renew<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    request: &Renew,
    events: &mut EventCollector,
) -> Result<Lease, RenewError> {
    let Renew { lease } = request;
    validate_lease(context, shard.head(), lease)?;

    let head = shard.head_mut();
    let until = context.run.config.lease_until(context.now);
    let deadline = head.lease.map_or(until, |holder| holder.deadline.max(until));
    head.lease = Some(LeaseHolder { owner: lease.owner(), deadline });
    assert_sound(head.check_invariants());
    let shard = head.key.shard;
    emit(context, events, || EventKind::ShardLeaseRenewed { shard, new_deadline: deadline });
    Ok(lease.renewed(deadline))
}
