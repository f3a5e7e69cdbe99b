use shardwright_contracts::LogicalTime;

use super::{assert_sound, emit};
use crate::error::RenewError;
use crate::events::{EventCollector, EventKind};
use crate::guard::{Context, validate_lease};
use crate::lease::{Lease, LeaseHolder};
use crate::planted::{self, Defect};
use crate::record::ShardState;

/// Makes a lease last longer. Neither the fence nor the shard's progress changes.
///
/// A renewal that comes late never shortens what an earlier one gave. Emits `ShardLeaseRenewed`.
pub fn renew<const LOG: usize>(
    context: &Context<'_>,
    shard: &mut impl ShardState<LOG>,
    lease: &Lease,
    events: &mut EventCollector,
) -> Result<Lease, RenewError> {
    let ignores_expiry = planted::is_active(Defect::ExpiredLeaseRenewed);
    let shown_at = if ignores_expiry { LogicalTime::ZERO } else { context.now };
    validate_lease(&Context { now: shown_at, ..*context }, shard.head(), lease)?;

    let head = shard.head_mut();
    let until = context.gate.config.lease_until(context.now);
    let deadline = head.lease.map_or(until, |holder| holder.deadline.max(until));
    let deadline = if planted::is_active(Defect::LateRenewalShortens) { until } else { deadline };
    head.lease = Some(LeaseHolder { owner: lease.owner(), deadline });
    assert_sound(head.check_invariants());
    let shard = head.key.shard;
    emit(context, events, || EventKind::ShardLeaseRenewed { shard, new_deadline: deadline });
    Ok(lease.renewed(deadline))
}
