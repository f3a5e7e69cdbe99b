//! Lists of a run's shards.

use std::fmt;

use shardwright_contracts::{LogicalTime, Redacted, ShardId};

use crate::lease::{OwnerLiveness, TakeoverTerms};
use crate::record::ShardState;
use crate::status::{ParkReason, ShardStatus};

/// A filter of listed shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardFilter {
    /// Only shards of this status.
    pub status: Option<ShardStatus>,
    /// Only shards with a holder, or only shards without one.
    pub is_leased: Option<bool>,
    /// Only shards of the manifest.
    pub root_only: bool,
}

impl ShardFilter {
    /// Every shard.
    #[must_use]
    pub const fn all() -> Self {
        Self { status: None, is_leased: None, root_only: false }
    }

    /// Active shards, held or available.
    #[must_use]
    pub const fn active() -> Self {
        Self { status: Some(ShardStatus::Active), ..Self::all() }
    }

    /// Active shards without a holder that a claim has to respect. Whether one can be acquired also
    /// depends on its run and its attempts.
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

/// A shard in a list. Owns its key bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct ShardSummary {
    /// Its id.
    pub shard: ShardId,
    /// Its status.
    pub status: ShardStatus,
    /// Why it is parked, if it is.
    pub park_reason: Option<ParkReason>,
    /// The detail of its park, if it is parked.
    pub park_detail: Option<Box<[u8]>>,
    /// The deadline of its lease, if a claim has to respect it. It may have passed by up to the
    /// skew allowance.
    pub lease_deadline: Option<LogicalTime>,
    /// How often it was acquired.
    pub acquire_count: u32,
    /// How far it is processed.
    pub last_key: Option<Box<[u8]>>,
    /// First key of its range.
    pub start: Box<[u8]>,
    /// First key after its range.
    pub end: Box<[u8]>,
    /// The shard it was split from.
    pub parent: Option<ShardId>,
    /// The number of shards that were split from it.
    pub spawned_count: u32,
}

impl ShardSummary {
    /// Sorts a list: by key, and a parent before its children.
    pub fn sort(listed: &mut [Self]) {
        listed.sort_by(|one, other| (&one.start, one.shard).cmp(&(&other.start, other.shard)));
    }

    /// The summary of a shard. Its lease counts while a claim has to respect it.
    pub fn of<const LOG: usize>(
        shard: &impl ShardState<LOG>,
        terms: &TakeoverTerms,
        owner: OwnerLiveness,
    ) -> Self {
        let (head, spec) = (shard.head(), shard.spec());
        Self {
            shard: head.key.shard,
            status: head.status,
            park_reason: head.park.as_ref().map(|park| park.reason),
            park_detail: head.park.as_ref().map(|park| park.detail.clone()),
            lease_deadline: head.respected_holder(terms, owner).map(|holder| holder.deadline),
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
