use std::collections::{BTreeMap, VecDeque};

use shardwright_contracts::limits::OP_LOG_CAPACITY;
use shardwright_contracts::{LogicalTime, OpId, ShardId, WorkerId};
use shardwright_coordination::{ParkReason, ShardStatus, SplitRequest};

use crate::request::{Cursor, Spec};

/// The model of one shard.
#[derive(Clone, Debug)]
pub struct ShardModel {
    /// Range and metadata.
    pub spec: Spec,
    /// The shard that it was split from.
    pub parent: Option<ShardId>,
    /// Its status.
    pub status: ShardStatus,
    /// Why it is parked.
    pub park_reason: Option<ParkReason>,
    /// The detail of the park.
    pub park_detail: Option<Vec<u8>>,
    /// Its cursor.
    pub cursor: Cursor,
    /// Its current fence. Only higher fences may be granted.
    pub fence: u64,
    /// Its holder and the deadline of the lease.
    pub lease: Option<(WorkerId, LogicalTime)>,
    /// Whether its holder's session has ended, which ends the lease before its deadline.
    pub unbound: bool,
    /// Number of acquisitions.
    pub acquires: u32,
    /// Number of acquisitions since its last progress.
    pub without_progress: u32,
    /// The shards that were split from it.
    pub spawned: Vec<ShardId>,
    /// Its op log.
    pub ops: OpLog,
    /// Its residual splits, which are never evicted.
    pub residuals: BTreeMap<OpId, LoggedOp>,
    /// Fence and worker of the last accepted write.
    pub last_write: Option<(u64, WorkerId)>,
    /// The split request that its holder has not answered.
    pub request: Option<SplitRequest>,
    /// No split request is accepted before this time.
    pub declined_until: Option<LogicalTime>,
}

impl ShardModel {
    /// A new shard.
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
            without_progress: 0,
            spawned: Vec::new(),
            ops: OpLog::new(OP_LOG_CAPACITY),
            residuals: BTreeMap::new(),
            last_write: None,
            request: None,
            declined_until: None,
        }
    }

    /// Whether it can be acquired at `now`.
    #[must_use]
    pub fn is_available(&self, now: LogicalTime) -> bool {
        self.is_available_after(now, 0)
    }

    /// Whether it can be acquired at `now`, if leases are respected for `skew_ms` after their end.
    #[must_use]
    pub fn is_available_after(&self, now: LogicalTime, skew_ms: u64) -> bool {
        let is_over = |deadline: LogicalTime| now >= deadline.saturating_add(skew_ms);
        let is_free = self.lease.is_none_or(|(_, deadline)| self.unbound || is_over(deadline));
        self.status == ShardStatus::Active && is_free
    }

    /// The fence that unparking gives it. Fences below `floor` are stale.
    #[must_use]
    pub fn next_fence(&self, floor: u64) -> u64 {
        self.fence.saturating_add(1).max(floor)
    }

    /// Its holder at `now`.
    #[must_use]
    pub fn holder(&self, now: LogicalTime) -> Option<WorkerId> {
        let lease = self.lease.filter(|(_, deadline)| now < *deadline && !self.unbound);
        lease.map(|(worker, _)| worker)
    }

    /// The split request that is open at `now`: it has not expired, and the shard has a holder.
    #[must_use]
    pub fn open_request(&self, now: LogicalTime) -> Option<SplitRequest> {
        self.request.filter(|request| now < request.expires_at && self.holder(now).is_some())
    }
}

/// An operation that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedOp {
    /// A hash of the request, from [`RequestExt::meaning`](crate::request::RequestExt::meaning).
    pub meaning: u64,
    /// The shards that it created.
    pub spawned: Vec<ShardId>,
}

/// The last operations that took effect, by op id.
#[derive(Clone, Debug)]
pub struct OpLog {
    capacity: usize,
    entries: VecDeque<(OpId, LoggedOp)>,
}

impl OpLog {
    /// An empty op log of `capacity` entries.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, entries: VecDeque::new() }
    }

    /// The operation with that id, if it is in the log.
    #[must_use]
    pub fn get(&self, op: OpId) -> Option<&LoggedOp> {
        self.entries.iter().find(|(id, _)| *id == op).map(|(_, remembered)| remembered)
    }

    /// Adds an operation. A full log evicts the oldest one.
    pub fn record(&mut self, op: OpId, remembered: LoggedOp) {
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back((op, remembered));
    }
}
