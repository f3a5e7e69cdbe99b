//! Lists of a run's shards.

use std::fmt;

use shardwright_contracts::{FenceEpoch, LogicalTime, Redacted, ShardId};

use crate::record::ShardState;
use crate::status::{ParkReason, ShardStatus};

/// Which shards a list is to contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardFilter {
    /// Only those in this state.
    pub status: Option<ShardStatus>,
    /// Only those that somebody holds, or only those that nobody does.
    pub is_leased: Option<bool>,
    /// Only those of the manifest.
    pub root_only: bool,
}

impl ShardFilter {
    /// Every shard.
    #[must_use]
    pub const fn all() -> Self {
        Self { status: None, is_leased: None, root_only: false }
    }

    /// Shards that are being worked on or wait for it.
    #[must_use]
    pub const fn active() -> Self {
        Self { status: Some(ShardStatus::Active), ..Self::all() }
    }

    /// Active shards that nobody holds. Whether one of them can be acquired depends on its run and
    /// its earlier attempts as well.
    #[must_use]
    pub const fn available() -> Self {
        Self { is_leased: Some(false), ..Self::active() }
    }

    /// Parked shards.
    #[must_use]
    pub const fn parked() -> Self {
        Self { status: Some(ShardStatus::Parked), ..Self::all() }
    }

    /// Whether a shard passes.
    #[must_use]
    pub fn admits(&self, summary: &ShardSummary) -> bool {
        self.status.is_none_or(|status| status == summary.status)
            && self.is_leased.is_none_or(|leased| leased == summary.lease_deadline.is_some())
            && !(self.root_only && summary.parent.is_some())
    }
}

/// A shard in a list. Owns the bytes of its keys and no more.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardSummary {
    /// Its id.
    pub shard: ShardId,
    /// Where it is in its life.
    pub status: ShardStatus,
    /// Why it is parked, if it is.
    pub park_reason: Option<ParkReason>,
    /// What whoever parked it had to say, if it is parked.
    pub park_detail: Option<Box<[u8]>>,
    /// When its lease ends, if somebody holds it.
    pub lease_deadline: Option<LogicalTime>,
    /// How often it was acquired.
    pub acquire_count: u32,
    /// How far it is processed.
    pub last_key: Option<Box<[u8]>>,
    /// First key of its range.
    pub start: Box<[u8]>,
    /// First key behind its range.
    pub end: Box<[u8]>,
    /// Which shard it was split from.
    pub parent: Option<ShardId>,
    /// How many shards were split from it.
    pub spawned_count: u32,
}

impl ShardSummary {
    /// The order of lists: by key, and the parent before what it became.
    pub fn sort(listed: &mut [Self]) {
        listed.sort_by(|one, other| (&one.start, one.shard).cmp(&(&other.start, other.shard)));
    }

    /// Sums up a shard as it is at `now`. By a lease below the floor nobody holds it.
    pub fn of<const LOG: usize>(
        shard: &impl ShardState<LOG>,
        now: LogicalTime,
        fence_floor: FenceEpoch,
    ) -> Self {
        let (head, spec) = (shard.head(), shard.spec());
        Self {
            shard: head.key.shard,
            status: head.status,
            park_reason: head.park.as_ref().map(|park| park.reason),
            park_detail: head.park.as_ref().map(|park| park.detail.clone()),
            lease_deadline: head.holder_at(now, fence_floor).map(|holder| holder.deadline),
            acquire_count: head.acquire_count,
            last_key: shard.cursor().last_key().map(Into::into),
            start: spec.start().into(),
            end: spec.end().into(),
            parent: head.parent,
            spawned_count: head.spawned.len() as u32,
        }
    }
}

impl fmt::Debug for ShardSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardSummary")
            .field("shard", &self.shard)
            .field("status", &self.status)
            .field("park_reason", &self.park_reason)
            .field("park_detail", &self.park_detail.as_deref().map(Redacted))
            .field("lease_deadline", &self.lease_deadline)
            .field("acquire_count", &self.acquire_count)
            .field("last_key", &self.last_key.as_deref().map(Redacted))
            .field("start", &Redacted(&self.start))
            .field("end", &Redacted(&self.end))
            .field("parent", &self.parent)
            .field("spawned_count", &self.spawned_count)
            .finish()
    }
}
