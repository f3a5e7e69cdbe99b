use std::collections::{BTreeMap, VecDeque};

use shardwright_contracts::limits::OP_LOG_CAPACITY;
use shardwright_contracts::{LogicalTime, OpId, ShardId, WorkerId};
use shardwright_coordination::{ParkReason, ShardStatus, SplitRequest};

use crate::request::{Cursor, Spec};

/// The account of one shard.
#[derive(Clone, Debug)]
pub struct ShardModel {
    /// Range and metadata.
    pub spec: Spec,
    /// Which shard it was split from.
    pub parent: Option<ShardId>,
    /// Where it stands.
    pub status: ShardStatus,
    /// Why it is parked.
    pub park_reason: Option<ParkReason>,
    /// What was said about it.
    pub park_detail: Option<Vec<u8>>,
    /// How far it is processed.
    pub cursor: Cursor,
    /// No fence up to this one may be granted again.
    pub fence: u64,
    /// Who holds it until when.
    pub lease: Option<(WorkerId, LogicalTime)>,
    /// Whether what bound it to its holder is gone, so that the lease is over before its time.
    pub unbound: bool,
    /// How often it was acquired.
    pub acquires: u32,
    /// How often since it made progress.
    pub fruitless: u32,
    /// What was split from it.
    pub spawned: Vec<ShardId>,
    /// What was done to it lately.
    pub ops: OpMemory,
    /// Its residual splits, which are never forgotten.
    pub residuals: BTreeMap<OpId, Remembered>,
    /// Fence and worker of the last accepted write.
    pub last_write: Option<(u64, WorkerId)>,
    /// What was asked of its holder and not answered.
    pub request: Option<SplitRequest>,
    /// Until when nobody may ask.
    pub declined_until: Option<LogicalTime>,
}

impl ShardModel {
    /// A shard that nobody has touched.
    #[must_use]
    pub fn new(spec: Spec, cursor: Cursor, parent: Option<ShardId>) -> Self {
        Self {
            spec,
            parent,
            status: ShardStatus::Active,
            park_reason: None,
            park_detail: None,
            cursor,
            fence: 1,
            lease: None,
            unbound: false,
            acquires: 0,
            fruitless: 0,
            spawned: Vec::new(),
            ops: OpMemory::new(OP_LOG_CAPACITY),
            residuals: BTreeMap::new(),
            last_write: None,
            request: None,
            declined_until: None,
        }
    }

    /// Whether it could be acquired at `now`.
    #[must_use]
    pub fn is_available(&self, now: LogicalTime) -> bool {
        self.is_available_after(now, 0)
    }

    /// Whether it could be acquired at `now`, if leases are respected `skew_ms` after their end.
    #[must_use]
    pub fn is_available_after(&self, now: LogicalTime, skew_ms: u64) -> bool {
        let is_over = |deadline: LogicalTime| now >= deadline.saturating_add(skew_ms);
        let is_free = self.lease.is_none_or(|(_, deadline)| self.unbound || is_over(deadline));
        self.status == ShardStatus::Active && is_free
    }

    /// The fence that unparking gives it, where fences below `floor` are stale.
    #[must_use]
    pub fn next_fence(&self, floor: u64) -> u64 {
        self.fence.saturating_add(1).max(floor)
    }

    /// Who holds it at `now`.
    #[must_use]
    pub fn holder(&self, now: LogicalTime) -> Option<WorkerId> {
        let lease = self.lease.filter(|(_, deadline)| now < *deadline && !self.unbound);
        lease.map(|(worker, _)| worker)
    }

    /// The request that waits for an answer at `now`: one that has not expired, to a holder who can
    /// still give one.
    #[must_use]
    pub fn open_request(&self, now: LogicalTime) -> Option<SplitRequest> {
        self.request.filter(|request| now < request.expires_at && self.holder(now).is_some())
    }
}

/// An operation that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// What was asked.
    pub meaning: u64,
    /// The shards that it made.
    pub spawned: Vec<ShardId>,
}

/// The last operations that took effect.
#[derive(Clone, Debug)]
pub struct OpMemory {
    capacity: usize,
    entries: VecDeque<(OpId, Remembered)>,
}

impl OpMemory {
    /// Remembers nothing yet, and `capacity` operations at most.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, entries: VecDeque::new() }
    }

    /// The operation of that id, if it is remembered.
    #[must_use]
    pub fn get(&self, op: OpId) -> Option<&Remembered> {
        self.entries.iter().find(|(id, _)| *id == op).map(|(_, remembered)| remembered)
    }

    /// Remembers an operation, and forgets the oldest if there is no room.
    pub fn record(&mut self, op: OpId, remembered: Remembered) {
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back((op, remembered));
    }
}
