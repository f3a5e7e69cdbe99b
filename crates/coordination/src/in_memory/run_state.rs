use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{LogicalTime, ShardId, WorkerId};

use super::pooled::PooledShard;
use crate::ops::SplitRequestSlot;
use crate::record::{RunRecord, ShardHead};
use crate::restore::{CapacityHint, HolderNotice, SplitRequest};
use crate::status::ShardStatus;

/// A run, its shards, and indexes that answer what is asked often without looking at all of them.
pub(super) struct RunState {
    pub(super) record: RunRecord,
    pub(super) shards: BTreeMap<ShardId, PooledShard>,
    /// Active shards that nobody holds, or whose holder's time was up when last looked at.
    available: BTreeSet<ShardId>,
    /// Active shards that somebody holds, by the end of the lease.
    leased: BTreeSet<(LogicalTime, ShardId)>,
    /// Workers that found nothing, by the time until which they count as waiting.
    waiting: BTreeSet<(LogicalTime, WorkerId)>,
    waiting_until: BTreeMap<WorkerId, LogicalTime>,
    requests: BTreeMap<ShardId, SplitRequestSlot>,
    /// Which shard each worker has asked for a part of.
    asked: BTreeMap<WorkerId, ShardId>,
    /// The greatest watermark told so far.
    pub(super) watermark: Option<Box<[u8]>>,
}

/// Where a shard stands in the indexes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Settled,
    Available,
    Leased(LogicalTime),
}

impl Standing {
    pub(super) fn of(head: &ShardHead) -> Self {
        match (head.status, head.lease) {
            (ShardStatus::Active, None) => Self::Available,
            (ShardStatus::Active, Some(holder)) => Self::Leased(holder.deadline),
            (ShardStatus::Done | ShardStatus::Split | ShardStatus::Parked, _) => Self::Settled,
        }
    }
}

impl RunState {
    pub(super) const fn new(record: RunRecord) -> Self {
        Self {
            record,
            shards: BTreeMap::new(),
            available: BTreeSet::new(),
            leased: BTreeSet::new(),
            waiting: BTreeSet::new(),
            waiting_until: BTreeMap::new(),
            requests: BTreeMap::new(),
            asked: BTreeMap::new(),
            watermark: None,
        }
    }

    /// Adds a shard that nobody has touched.
    pub(super) fn insert(&mut self, shard: PooledShard) {
        let id = shard.head.key.shard;
        self.available.insert(id);
        self.shards.insert(id, shard);
    }

    /// Moves a shard within the indexes after an operation.
    pub(super) fn reindex(&mut self, shard: ShardId, before: Standing, after: Standing) {
        if before == after {
            return;
        }
        match before {
            Standing::Settled => {}
            Standing::Available => _ = self.available.remove(&shard),
            Standing::Leased(deadline) => {
                // One whose time was up may have been moved to the available ones.
                self.leased.remove(&(deadline, shard));
                self.available.remove(&shard);
            }
        }
        match after {
            Standing::Settled => self.forget_requests(shard),
            Standing::Available => {
                self.available.insert(shard);
                self.forget_requests(shard);
            }
            Standing::Leased(deadline) => _ = self.leased.insert((deadline, shard)),
        }
    }

    /// Moves shards whose holder's time is up to the available ones.
    pub(super) fn expire(&mut self, now: LogicalTime) {
        while let Some(&(deadline, shard)) = self.leased.first() {
            if now < deadline {
                break;
            }
            self.leased.pop_first();
            self.available.insert(shard);
        }
        while let Some(&(until, worker)) = self.waiting.first() {
            if now < until {
                break;
            }
            self.stop_waiting(worker);
        }
    }

    pub(super) fn capacity(&mut self, now: LogicalTime) -> CapacityHint {
        self.expire(now);
        CapacityHint {
            available_count: self.available.len() as u32,
            earliest_deadline: self.earliest_deadline(),
            waiting_workers: self.waiting.len() as u32,
        }
    }

    pub(super) fn earliest_deadline(&self) -> Option<LogicalTime> {
        self.leased.first().map(|(deadline, _)| *deadline)
    }

    /// Shards that could be acquired, from one that depends on the worker on.
    pub(super) fn candidates(&self, worker: WorkerId) -> impl Iterator<Item = ShardId> + '_ {
        let roots = &self.record.root_shards;
        let index = worker.as_raw().checked_rem(roots.len() as u64).unwrap_or_default();
        let first = roots.get(index as usize).copied().unwrap_or(ShardId::SINGLE);
        self.available.range(first..).chain(self.available.range(..first)).copied()
    }

    /// Counts a worker that found nothing as waiting until `until`.
    pub(super) fn wait(&mut self, worker: WorkerId, until: LogicalTime) {
        self.stop_waiting(worker);
        self.waiting.insert((until, worker));
        self.waiting_until.insert(worker, until);
    }

    pub(super) fn stop_waiting(&mut self, worker: WorkerId) {
        if let Some(until) = self.waiting_until.remove(&worker) {
            self.waiting.remove(&(until, worker));
        }
    }

    pub(super) fn notice(&self, shard: ShardId, now: LogicalTime) -> HolderNotice {
        HolderNotice { paused: self.record.paused, split_request: self.open_request(shard, now) }
    }

    fn open_request(&self, shard: ShardId, now: LogicalTime) -> Option<SplitRequest> {
        self.requests.get(&shard).and_then(|slot| slot.open_at(now))
    }

    pub(super) fn request_slot(&self, shard: ShardId) -> SplitRequestSlot {
        self.requests.get(&shard).copied().unwrap_or_default()
    }

    /// Whether a worker waits for the answer of some holder.
    pub(super) fn has_asked(&self, worker: WorkerId, now: LogicalTime) -> bool {
        let asked = self.asked.get(&worker);
        asked.is_some_and(|shard| {
            self.open_request(*shard, now).is_some_and(|request| request.asker == worker)
        })
    }

    pub(super) fn set_request_slot(&mut self, shard: ShardId, slot: SplitRequestSlot) {
        if let Some(open) = self.requests.get(&shard).and_then(|slot| slot.open) {
            self.asked.remove(&open.asker);
        }
        if let Some(open) = slot.open {
            self.asked.insert(open.asker, shard);
        }
        self.requests.insert(shard, slot);
    }

    /// A request was for the holder; with the holder it goes.
    pub(super) fn forget_requests(&mut self, shard: ShardId) {
        if let Some(open) = self.requests.remove(&shard).and_then(|slot| slot.open) {
            self.asked.remove(&open.asker);
        }
    }
}
