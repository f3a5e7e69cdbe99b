//! The right to change one shard, for a time.

use std::fmt;

use shardwright_contracts::{
    FenceEpoch, LogicalTime, RunId, ShardId, ShardKey, TenantId, WorkerId,
};

/// What a worker holds after it acquired a shard, and shows with every change it makes.
///
/// Only the protocol grants leases; whoever received one as bytes puts it together again. A lease
/// does not prove anything by itself: each operation compares it with the shard's record, and a
/// lease that a later owner's fence has overtaken is refused, as is one that nobody granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    tenant: TenantId,
    key: ShardKey,
    owner: WorkerId,
    fence: FenceEpoch,
    deadline: LogicalTime,
}

impl Lease {
    /// Puts a lease together, as the protocol grants it or as a driver received it.
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

    /// Whose shard it is.
    #[must_use]
    pub const fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Which shard it is for.
    #[must_use]
    pub const fn key(&self) -> ShardKey {
        self.key
    }

    /// Which run the shard is of.
    #[must_use]
    pub const fn run(&self) -> RunId {
        self.key.run
    }

    /// Which shard of the run it is for.
    #[must_use]
    pub const fn shard(&self) -> ShardId {
        self.key.shard
    }

    /// Who holds it.
    #[must_use]
    pub const fn owner(&self) -> WorkerId {
        self.owner
    }

    /// The fence it was granted with.
    #[must_use]
    pub const fn fence(&self) -> FenceEpoch {
        self.fence
    }

    /// When it ends: at this moment it is over.
    #[must_use]
    pub const fn deadline(&self) -> LogicalTime {
        self.deadline
    }

    /// The same lease with the end that a renewal gave it.
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

/// Who holds a shard and until when: both, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseHolder {
    /// The worker.
    pub owner: WorkerId,
    /// When its lease ends.
    pub deadline: LogicalTime,
}

impl LeaseHolder {
    /// Whether the lease is over at `now`. At the deadline itself it is.
    #[must_use]
    pub fn is_expired(&self, now: LogicalTime) -> bool {
        now >= self.deadline
    }
}

/// What is known of a lease's owner apart from its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnerLiveness {
    /// Its session is alive.
    Live,
    /// Its session has ended: the shard may be taken before the deadline.
    Gone,
    /// Nobody watches it; the deadline alone decides.
    Untracked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_tells_of_which_shard_of_which_run_it_is() {
        let (run, shard) = (RunId::from_raw(3), ShardId::from_raw(4));
        let (tenant, key) = (TenantId::from_bytes([1; 32]), ShardKey::new(run, shard));
        let (fence, deadline) = (FenceEpoch::INITIAL, LogicalTime::from_millis(10));
        let lease = Lease::new(tenant, key, WorkerId::from_raw(1), fence, deadline);
        assert_eq!((lease.run(), lease.shard(), lease.key()), (run, shard, key));
    }

    #[test]
    fn a_lease_is_over_at_its_deadline() {
        let holder =
            LeaseHolder { owner: WorkerId::from_raw(1), deadline: LogicalTime::from_millis(10) };
        assert!(!holder.is_expired(LogicalTime::from_millis(9)));
        assert!(holder.is_expired(LogicalTime::from_millis(10)));
        assert!(holder.is_expired(LogicalTime::from_millis(11)));
    }
}
