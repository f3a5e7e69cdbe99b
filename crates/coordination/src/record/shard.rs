use std::fmt;

use shardwright_contracts::limits::{MAX_PARK_DETAIL_SIZE, MAX_SPAWNED_PER_SHARD, OP_LOG_CAPACITY};
use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, Redacted, ShardId, ShardKey,
    ShardSpec, ShardSpecRef, SlabFull, TenantId,
};

use super::{InvariantViolation, assert_sound, ensure};
use crate::lease::{LeaseHolder, OwnerLiveness, TakeoverTerms};
use crate::op_log::OpLog;
use crate::status::{ParkReason, ShardStatus};

/// Why a shard is parked, with a detail for the operator.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Park {
    /// The reason.
    pub reason: ParkReason,
    /// The detail. It may quote the user's data, so it is not printed.
    pub detail: Box<[u8]>,
}

impl fmt::Debug for Park {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Park")
            .field("reason", &self.reason)
            .field("detail", &Redacted(&self.detail))
            .finish()
    }
}

/// A shard that a split made, and the fingerprint of the plan that did.
///
/// The fingerprint outlives the op log. It distinguishes a late retry of a residual split from
/// another request with the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spawned {
    /// The new shard.
    pub shard: ShardId,
    /// Fingerprint of the plan.
    pub payload_hash: u64,
}

/// The fingerprint stays out of logs.
impl fmt::Debug for Spawned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spawned").field("shard", &self.shard).finish_non_exhaustive()
    }
}

/// Everything about a shard except its key bytes.
///
/// The fields are public for codecs. A codec that builds a record checks it with
/// [`ShardHead::check_invariants`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardHead<const LOG: usize = OP_LOG_CAPACITY> {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its run and its id.
    pub key: ShardKey,
    /// Its status.
    pub status: ShardStatus,
    /// Why it is parked, if it is.
    pub park: Option<Park>,
    /// The fence of its last owner, or 1 if it never had one.
    pub fence: FenceEpoch,
    /// Its holder.
    pub lease: Option<LeaseHolder>,
    /// The shard it was split from.
    pub parent: Option<ShardId>,
    /// The shards that were split from it, in order.
    pub spawned: Vec<Spawned>,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// The last operations on it.
    pub op_log: OpLog<LOG>,
    /// How often it was acquired.
    pub acquire_count: u32,
    /// How often it was acquired since it last made progress.
    pub acquires_without_progress: u32,
}

impl<const LOG: usize> ShardHead<LOG> {
    /// A shard that was never acquired.
    #[must_use]
    pub fn new(
        tenant: TenantId,
        key: ShardKey,
        parent: Option<ShardId>,
        cursor_semantics: CursorSemantics,
    ) -> Self {
        Self {
            tenant,
            key,
            status: ShardStatus::Active,
            park: None,
            fence: FenceEpoch::INITIAL,
            lease: None,
            parent,
            spawned: Vec::new(),
            cursor_semantics,
            op_log: OpLog::new(),
            acquire_count: 0,
            acquires_without_progress: 0,
        }
    }

    /// Its holder, expired or not. A lease with a fence below the floor is stale: it was granted
    /// before a backup was restored, so it has no holder.
    #[must_use]
    pub fn holder(&self, fence_floor: FenceEpoch) -> Option<LeaseHolder> {
        self.lease.filter(|_| self.fence >= fence_floor)
    }

    /// The holder that a claim has to respect. A lease ends with its session, `skew_ms` after its
    /// deadline, or at once if its fence is below the floor.
    #[must_use]
    pub fn respected_holder(
        &self,
        terms: &TakeoverTerms,
        owner: OwnerLiveness,
    ) -> Option<LeaseHolder> {
        let TakeoverTerms { now, fence_floor, skew_ms } = *terms;
        let is_respected = |holder: &LeaseHolder| match owner {
            OwnerLiveness::Gone => false,
            OwnerLiveness::Live | OwnerLiveness::Untracked => {
                now < holder.deadline.saturating_add(skew_ms)
            }
        };
        self.holder(fence_floor).filter(is_respected)
    }

    /// Its holder at `now`, by the holder's own deadline.
    #[must_use]
    pub(crate) fn holder_at(
        &self,
        now: LogicalTime,
        fence_floor: FenceEpoch,
    ) -> Option<LeaseHolder> {
        self.holder(fence_floor).filter(|holder| !holder.is_expired(now))
    }

    /// Checks all invariants of a shard. The types ensure that a lease has an owner and a deadline,
    /// and that a fence is at least 1.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        let parked = self.status == ShardStatus::Parked;
        ensure(
            self.park.is_some() == parked,
            "a shard has a park reason if and only if it is parked",
        )?;
        ensure(
            !self.status.is_terminal() || self.lease.is_none(),
            "a shard that is not active is not leased",
        )?;
        ensure(
            self.status != ShardStatus::Split || !self.spawned.is_empty(),
            "a shard that was split has children",
        )?;
        ensure(
            self.parent.is_some() == self.key.shard.is_derived(),
            "a shard has a parent if and only if its id is a derived one",
        )?;
        ensure(
            self.spawned.iter().all(|spawned| spawned.shard.is_derived()),
            "spawned shards have derived ids",
        )?;
        ensure(self.spawned.len() <= MAX_SPAWNED_PER_SHARD, "a shard spawns no more than it may")?;
        ensure(self.op_log.is_sound(), "the op log is bounded and has no id twice")?;
        ensure(
            self.op_log.entries().all(|entry| !entry.kind.is_of_run()),
            "a shard's op log remembers what was done to the shard",
        )?;
        ensure(
            self.lease.is_none() || self.fence > FenceEpoch::INITIAL,
            "a leased shard's fence has risen",
        )?;
        ensure(
            self.acquires_without_progress <= self.acquire_count,
            "acquires without progress are acquires",
        )?;
        let detail = self.park.as_ref().map_or(0, |park| park.detail.len());
        ensure(detail <= MAX_PARK_DETAIL_SIZE, "a park detail is bounded")
    }
}

/// A shard as an operation reads and changes it.
///
/// The backend decides how to store bytes. If storing fails for lack of room, nothing has changed.
pub trait ShardState<const LOG: usize = OP_LOG_CAPACITY> {
    /// Everything but the key bytes.
    fn head(&self) -> &ShardHead<LOG>;
    /// Everything but the key bytes, mutable.
    fn head_mut(&mut self) -> &mut ShardHead<LOG>;
    /// Its range and metadata.
    fn spec(&self) -> ShardSpecRef<'_>;
    /// How far it is processed.
    fn cursor(&self) -> CursorUpdate<'_>;
    /// Replaces the cursor by a checked one.
    fn set_cursor(&mut self, cursor: CursorUpdate<'_>) -> Result<(), SlabFull>;
    /// Replaces range and metadata by checked ones.
    fn set_spec(&mut self, spec: ShardSpecRef<'_>) -> Result<(), SlabFull>;

    /// Sets the checked reason and detail of a park.
    fn set_park(&mut self, park: Park) -> Result<(), SlabFull> {
        self.head_mut().park = Some(park);
        Ok(())
    }

    /// Clears the reason and detail of a park.
    fn clear_park(&mut self) {
        self.head_mut().park = None;
    }
}

/// A shard that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardRecord<const LOG: usize = OP_LOG_CAPACITY> {
    /// Everything but the key bytes.
    pub head: ShardHead<LOG>,
    /// Its range and metadata.
    pub spec: ShardSpec,
    /// How far it is processed.
    pub cursor: Cursor,
}

impl<const LOG: usize> ShardRecord<LOG> {
    /// The fence of its last owner, or 1 if it never had one.
    #[must_use]
    pub const fn fence_epoch(&self) -> FenceEpoch {
        self.head.fence
    }

    /// Why it is parked, if it is.
    #[must_use]
    pub fn park_reason(&self) -> Option<ParkReason> {
        self.head.park.as_ref().map(|park| park.reason)
    }

    /// Checks all invariants of a shard.
    pub fn check_invariants(&self) -> Result<(), InvariantViolation> {
        self.head.check_invariants()?;
        check_cursor(self.spec.as_spec_ref(), self.cursor.as_update())
    }

    /// Asserts all invariants of a shard. A driver does so before it stores one.
    ///
    /// # Panics
    ///
    /// Panics if an invariant is violated, which only a bug can cause.
    pub fn assert_invariants(&self) {
        assert_sound(self.check_invariants());
    }
}

/// Checks that the cursor lies in the range.
pub(crate) fn check_cursor(
    spec: ShardSpecRef<'_>,
    cursor: CursorUpdate<'_>,
) -> Result<(), InvariantViolation> {
    ensure(cursor.is_within(spec), "a cursor stands in its shard's range")
}

impl<const LOG: usize> ShardState<LOG> for ShardRecord<LOG> {
    fn head(&self) -> &ShardHead<LOG> {
        &self.head
    }

    fn head_mut(&mut self) -> &mut ShardHead<LOG> {
        &mut self.head
    }

    fn spec(&self) -> ShardSpecRef<'_> {
        self.spec.as_spec_ref()
    }

    fn cursor(&self) -> CursorUpdate<'_> {
        self.cursor.as_update()
    }

    fn set_cursor(&mut self, cursor: CursorUpdate<'_>) -> Result<(), SlabFull> {
        self.cursor = Cursor::try_from_update(cursor).unwrap_or_else(unchecked);
        Ok(())
    }

    fn set_spec(&mut self, spec: ShardSpecRef<'_>) -> Result<(), SlabFull> {
        self.spec = ShardSpec::try_from_ref(spec).unwrap_or_else(unchecked);
        Ok(())
    }
}

/// Operations check what they store. An unchecked value is a bug and must not reach storage.
#[expect(clippy::panic, reason = "only a bug in an operation can get here")]
fn unchecked<T>(error: impl fmt::Display) -> T {
    panic!("an operation stored an unchecked value: {error}")
}

/// The part of a shard that its new owner sees. Earlier owners, the op log and the tenant are left
/// out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardSnapshotView<'a> {
    /// Its status.
    pub status: ShardStatus,
    /// Its range and metadata.
    pub spec: ShardSpecRef<'a>,
    /// How far it is processed.
    pub cursor: CursorUpdate<'a>,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// The shard it was split from.
    pub parent: Option<ShardId>,
    /// The shards that were split from it.
    pub spawned: &'a [Spawned],
    /// Acquires in all, this one included.
    pub acquires: u32,
    /// Acquires in a row without progress, this one included.
    pub acquires_without_progress: u32,
}

impl<'a> ShardSnapshotView<'a> {
    /// The view of a shard.
    pub fn of<const LOG: usize>(shard: &'a impl ShardState<LOG>) -> Self {
        let head = shard.head();
        Self {
            status: head.status,
            spec: shard.spec(),
            cursor: shard.cursor(),
            cursor_semantics: head.cursor_semantics,
            parent: head.parent,
            spawned: &head.spawned,
            acquires: head.acquire_count,
            acquires_without_progress: head.acquires_without_progress,
        }
    }
}
