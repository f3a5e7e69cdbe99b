use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId, WorkerId};

use super::pooled::PooledShard;
use super::shard_table::{Row, ShardTable};
use crate::estimate::HeldEstimate;
use crate::facade::rotated;
use crate::guard::{Context, hands_out};
use crate::ops::{self, SplitRequestSlot};
use crate::record::{RunRecord, ShardHead};
use crate::restore::{CapacityHint, HolderNotice, SplitRequest};
use crate::status::ShardStatus;
use crate::waiting::WaitingWorkers;

/// A run, its shards, and indexes for frequent queries.
pub(super) struct RunEntry {
    pub(super) record: RunRecord,
    pub(super) shards: ShardTable,
    /// Active shards without a holder, or whose lease had expired at the last check. Each shard
    /// stores its position in this list.
    available: Vec<Available>,
    /// Lease deadlines, the earliest first. An outdated entry stays until it comes first, and is
    /// skipped then.
    leased: BinaryHeap<Reverse<(LogicalTime, Row)>>,
    /// Workers with a refused claim.
    pub(super) waiting: WaitingWorkers,
    requests: BTreeMap<ShardId, SplitRequestSlot>,
    /// The shard for which each worker has an open split request.
    asked: BTreeMap<WorkerId, ShardId>,
    /// The greatest watermark returned so far.
    pub(super) watermark: Option<Box<[u8]>>,
    /// The last estimate of each shard's holder.
    pub(super) estimates: BTreeMap<ShardId, HeldEstimate>,
}

/// A shard that can be acquired.
#[derive(Clone, Copy)]
struct Available {
    id: ShardId,
    row: Row,
}

/// The position of a shard in the indexes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    Settled,
    Available,
    Leased(LogicalTime),
}

impl Availability {
    pub(super) fn of(head: &ShardHead, fence_floor: FenceEpoch) -> Self {
        match (head.status, head.holder(fence_floor)) {
            (ShardStatus::Active, None) => Self::Available,
            (ShardStatus::Active, Some(holder)) => Self::Leased(holder.deadline),
            (ShardStatus::Done | ShardStatus::Split | ShardStatus::Parked, _) => Self::Settled,
        }
    }
}

impl RunEntry {
    pub(super) fn new(record: RunRecord) -> Self {
        Self {
            record,
            shards: ShardTable::default(),
            available: Vec::new(),
            leased: BinaryHeap::new(),
            waiting: WaitingWorkers::new(),
            requests: BTreeMap::new(),
            asked: BTreeMap::new(),
            watermark: None,
            estimates: BTreeMap::new(),
        }
    }

    /// Adds new shards.
    pub(super) fn insert_all(&mut self, new: Vec<PooledShard>) {
        if self.shards.len() == 0 {
            self.available.reserve_exact(new.len());
        }
        self.shards.add_all(new).for_each(|row| self.add_available(row));
    }

    /// Updates the indexes after an operation.
    pub(super) fn reindex(
        &mut self,
        shard: ShardId,
        row: Row,
        before: Availability,
        after: Availability,
    ) {
        if before == after {
            return;
        }
        self.remove_available(row);
        match after {
            Availability::Settled => self.forget_requests(shard),
            Availability::Available => {
                self.add_available(row);
                self.forget_requests(shard);
            }
            Availability::Leased(deadline) => self.add_leased(deadline, row),
        }
    }

    fn add_available(&mut self, row: Row) {
        if let Some(shard) = self.shards.get_mut(row).filter(|shard| shard.place.is_none()) {
            shard.place = Some(self.available.len() as u32);
            self.available.push(Available { id: shard.head.key.shard, row });
        }
    }

    fn remove_available(&mut self, row: Row) {
        let place = self.shards.get_mut(row).and_then(|shard| shard.place.take());
        let index = place.map(|place| place as usize);
        if let Some(index) = index.filter(|index| *index < self.available.len()) {
            self.available.swap_remove(index);
            // `swap_remove` has moved the last entry here, unless this was the last.
            let moved = self.available.get(index).and_then(|moved| self.shards.get_mut(moved.row));
            if let Some(moved) = moved {
                moved.place = place;
            }
        }
    }

    fn add_leased(&mut self, deadline: LogicalTime, row: Row) {
        // Each renewal leaves an entry behind. Sweep before they outnumber the shards.
        if self.leased.len() > 2 * self.shards.len() + 64 {
            let mut entries = std::mem::take(&mut self.leased).into_vec();
            entries.retain(|Reverse((deadline, row))| is_current(&self.shards, *deadline, *row));
            // A shard that gets the same deadline again has several current entries.
            entries.sort_unstable();
            entries.dedup();
            self.leased = entries.into();
        }
        self.leased.push(Reverse((deadline, row)));
    }

    /// Moves shards with expired leases to the available ones.
    pub(super) fn expire(&mut self, now: LogicalTime) {
        while let Some(&Reverse((deadline, row))) = self.leased.peek() {
            let is_current = is_current(&self.shards, deadline, row);
            if is_current && now < deadline {
                break;
            }
            self.leased.pop();
            if is_current {
                self.add_available(row);
            }
        }
        self.waiting.forget_expired(now);
    }

    /// Makes shards available whose leases are below the raised floor, and drops split requests to
    /// their holders.
    pub(super) fn raise_floor(&mut self, fence_floor: FenceEpoch) {
        let is_stale = |shard: &&PooledShard| {
            shard.head.lease.is_some() && shard.head.holder(fence_floor).is_none()
        };
        let stale = self.shards.iter().filter(is_stale).map(|shard| shard.head.key.shard);
        for id in stale.collect::<Vec<_>>() {
            if let Some((row, _)) = self.shards.find_mut(id) {
                self.add_available(row);
            }
            self.forget_requests(id);
        }
    }

    pub(super) fn capacity(&mut self, now: LogicalTime) -> CapacityHint {
        self.expire(now);
        CapacityHint::of(
            hands_out(self.record.status, self.record.paused),
            self.available.len(),
            self.earliest_deadline(),
            self.waiting.count(now),
        )
    }

    /// The end of the first lease, right after [`RunEntry::expire`].
    pub(super) fn earliest_deadline(&self) -> Option<LogicalTime> {
        self.leased.peek().map(|Reverse((deadline, _))| *deadline)
    }

    /// The available shards, in the order in which a worker tries them.
    pub(super) fn candidates(&self, worker: WorkerId) -> impl Iterator<Item = ShardId> + '_ {
        rotated(&self.available, worker).map(|available| available.id)
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

    /// Whether a worker has an open split request for another shard.
    pub(super) fn has_asked_elsewhere(
        &self,
        context: &Context<'_>,
        worker: WorkerId,
        but: ShardId,
    ) -> bool {
        let asked = self.asked.get(&worker).filter(|shard| **shard != but);
        let shard = asked.and_then(|shard| self.shards.find(*shard));
        let open = shard.and_then(|PooledShard { head, .. }| {
            ops::open_request(context, head, &self.request_slot(head.key.shard))
        });
        open.is_some_and(|request| request.requester == worker)
    }

    pub(super) fn set_request_slot(&mut self, shard: ShardId, slot: SplitRequestSlot) {
        self.forget_requester(self.request_slot(shard).open);
        if let Some(open) = slot.open
            && let Some(before) = self.asked.insert(open.requester, shard)
        {
            self.withdraw(before, open.requester);
        }
        self.requests.insert(shard, slot);
    }

    /// A request to another holder withdraws the first one. An expired request stays expired, even
    /// if the clock is set back.
    fn withdraw(&mut self, shard: ShardId, requester: WorkerId) {
        let slot = self.requests.get_mut(&shard);
        if let Some(slot) =
            slot.filter(|slot| slot.open.is_some_and(|open| open.requester == requester))
        {
            *slot = slot.answered();
        }
    }

    /// The split of the holder answers its request.
    pub(super) fn answer_request(&mut self, shard: ShardId) {
        if self.requests.contains_key(&shard) {
            self.set_request_slot(shard, self.request_slot(shard).answered());
        }
    }

    /// Drops the requests to a holder whose lease has ended.
    pub(super) fn forget_requests(&mut self, shard: ShardId) {
        let open = self.requests.remove(&shard).and_then(|slot| slot.open);
        self.forget_requester(open);
    }

    fn forget_requester(&mut self, open: Option<SplitRequest>) {
        if let Some(open) = open {
            self.asked.remove(&open.requester);
        }
    }
}

/// Whether a shard is held until exactly `deadline`, and is not listed as available.
fn is_current(shards: &ShardTable, deadline: LogicalTime, row: Row) -> bool {
    shards.get(row).is_some_and(|shard| {
        let holder = shard.head.lease.filter(|_| shard.place.is_none());
        holder.is_some_and(|holder| holder.deadline == deadline)
    })
}
