//! The right to change one shard, for a limited time.

use std::fmt;

use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};

/// What a worker holds after it acquired a shard, and shows with every change.
///
/// Only the protocol grants leases. A driver may rebuild one from bytes. A lease proves nothing by
/// itself: each operation compares it with the shard's record. A lease with an older fence and a
/// forged lease are refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    tenant: TenantId,
    key: ShardKey,
    owner: WorkerId,
    fence: FenceEpoch,
    deadline: LogicalTime,
}

impl Lease {
    /// Builds a lease, as the protocol grants it or a driver received it.
    #[must_use]
    pub const fn new(
        tenant: TenantId,
        key: ShardKey,
        owner: WorkerId,
        fence: FenceEpoch,
        deadline: LogicalTime,
    ) -> Self {
        Self { tenant, key, owner, fence, deadline }
    }

    /// The tenant of the shard.
    #[must_use]
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// The key of the shard.
    #[must_use]
    pub const fn key(&self) -> ShardKey {
        self.key
    }

    /// The run of the shard.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.key.run
    }

    /// The id of the shard.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.key.shard
    }

    /// Its owner.
    #[must_use]
    pub const fn owner(&self) -> WorkerId {
        self.owner
    }

    /// Its fence.
    #[must_use]
    pub const fn fence(&self) -> FenceEpoch {
        self.fence
    }

    /// Its deadline. At this time the lease has expired.
    #[must_use]
    pub const fn deadline(&self) -> LogicalTime {
        self.deadline
    }

    /// The same lease with the deadline of a renewal.
    #[must_use]
    pub const fn renewed(self, deadline: LogicalTime) -> Self {
        Self { deadline, ..self }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("run", &self.key.run)
            .field("shard", &self.key.shard)
            .field("owner", &self.owner)
            .field("fence", &self.fence)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// The owner of a lease and its deadline: both, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseHolder {
    /// The worker.
    pub owner: WorkerId,
    /// Its deadline.
    pub deadline: LogicalTime,
}

impl LeaseHolder {
    /// Whether the lease has expired at `now`. At the deadline it has.
    #[must_use]
    pub fn is_expired(&self, now: LogicalTime) -> bool {
        now >= self.deadline
    }
}

/// What decides whether a claim can take over a lease, besides the owner's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeoverTerms {
    /// The current time.
    pub now: LogicalTime,
    /// Leases with a fence below this one are stale.
    pub fence_floor: FenceEpoch,
    /// How long after its deadline a lease is still respected, in milliseconds.
    pub skew_ms: u64,
}

/// What is known of a holder's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerLiveness {
    /// Its session is alive.
    Live,
    /// Its session has ended: the shard may be acquired before the deadline.
    Gone,
    /// The session is not tracked. The deadline alone decides.
    Untracked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_returns_its_run_and_shard() {
        let (run, shard) = (RunId::from_raw(3), ShardId::from_raw(4));
        let (tenant, key) = (TenantId::from_bytes([1; 32]), ShardKey::new(run, shard));
        let (fence, deadline) = (FenceEpoch::INITIAL, LogicalTime::from_millis(10));
        let lease = Lease::new(tenant, key, WorkerId::from_raw(1), fence, deadline);
        assert_eq!((lease.run(), lease.shard(), lease.key()), (run, shard, key));
    }

    #[test]
    fn lease_expires_at_its_deadline() {
        let holder =
            LeaseHolder { owner: WorkerId::from_raw(1), deadline: LogicalTime::from_millis(10) };
        assert!(!holder.is_expired(LogicalTime::from_millis(9)));
        assert!(holder.is_expired(LogicalTime::from_millis(10)));
        assert!(holder.is_expired(LogicalTime::from_millis(11)));
    }
}
