use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{FenceEpoch, LogicalTime, ShardId, WorkerId};
use shardwright_coordination::facade::rotated;
use shardwright_coordination::guard::hands_out;
use shardwright_coordination::{CapacityHint, HolderNotice, WaitingWorkers};
use shardwright_engine::codec::Record;
use shardwright_store::Revision;

use crate::keys::ViewKey;
use crate::records::{BindingRecord, RunStateRecord, SplitRequestRecord, WaitingWorkerRecord};

/// Content of a view, with indexes for its queries.
pub(crate) struct ViewState {
    skew_ms: u64,
    fence_floor: FenceEpoch,
    gate: Option<(RunStateRecord, Revision)>,
    /// Active shards, held or not.
    open: BTreeMap<ShardId, Claimability>,
    owners: BTreeMap<ShardId, Owner>,
    /// Until when shards of `open` are skipped that could not be acquired.
    refused: BTreeMap<ShardId, LogicalTime>,
    /// Shards of `open` that are claimable. Each knows its index.
    free: Vec<ShardId>,
    /// When the held shards of `open` become claimable, as far as known.
    held: BTreeSet<(LogicalTime, ShardId)>,
    /// Shards that a claim of this process is trying to acquire.
    tried: BTreeSet<ShardId>,
    waiting: WaitingWorkers,
    split_requests: BTreeMap<ShardId, SplitRequestRecord>,
    /// Writes of this coordinator that the watch has not delivered yet.
    ahead: BTreeMap<ViewKey, Revision>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claimability {
    Free { index: usize },
    Held { until: LogicalTime },
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    fence: FenceEpoch,
    /// The lease lasts at least until then. Renewals are not watched.
    deadline: LogicalTime,
}

impl ViewState {
    pub(crate) const fn new(skew_ms: u64, fence_floor: FenceEpoch) -> Self {
        Self {
            skew_ms,
            fence_floor,
            gate: None,
            open: BTreeMap::new(),
            owners: BTreeMap::new(),
            refused: BTreeMap::new(),
            free: Vec::new(),
            held: BTreeSet::new(),
            tried: BTreeSet::new(),
            waiting: WaitingWorkers::new(),
            split_requests: BTreeMap::new(),
            ahead: BTreeMap::new(),
        }
    }

    /// Replaces the content by a listing, except for newer writes of this coordinator.
    pub(crate) fn replace<'e>(
        &mut self,
        revision: Revision,
        entries: impl Iterator<Item = (ViewKey, &'e [u8], Revision)>,
    ) {
        let mut newer = std::mem::take(&mut self.ahead);
        newer.retain(|_, at| *at > revision);
        let kept = Self { ahead: newer, ..Self::new(self.skew_ms, self.fence_floor) };
        let old = std::mem::replace(self, kept);
        self.tried.clone_from(&old.tried);
        for (key, value, at) in entries {
            if !self.ahead.contains_key(&key) {
                self.put(key, Some(value), at);
            }
        }
        for key in self.ahead.keys().copied().collect::<Vec<_>>() {
            self.adopt(&old, key);
        }
        // The listing does not contain renewed deadlines.
        for (shard, owner) in &old.owners {
            self.note_deadline(*shard, owner.fence, owner.deadline);
        }
    }

    /// Keeps one entry of the previous content.
    fn adopt(&mut self, old: &Self, key: ViewKey) {
        match key {
            ViewKey::Gate => self.gate = old.gate,
            ViewKey::Open(shard) => {
                if old.open.contains_key(&shard) {
                    self.add_open(shard);
                }
            }
            ViewKey::Owner(shard) => {
                if let Some(owner) = old.owners.get(&shard) {
                    self.owners.insert(shard, *owner);
                    self.settle(shard);
                }
            }
            ViewKey::Waiting(worker) => {
                if let Some(until) = old.waiting.until(worker) {
                    self.waiting.wait(worker, until);
                }
            }
            ViewKey::SplitRequest(shard) => {
                self.split_requests
                    .extend(old.split_requests.get(&shard).map(|request| (shard, *request)));
            }
            ViewKey::Requester(_) => {}
        }
    }

    /// Applies a write of this coordinator.
    pub(crate) fn apply_own(&mut self, key: ViewKey, value: Option<&[u8]>, revision: Revision) {
        if self.ahead.get(&key).is_none_or(|known| *known < revision) {
            self.ahead.insert(key, revision);
            self.put(key, value, revision);
        }
    }

    /// Applies a change of the watch.
    pub(crate) fn apply_watched(&mut self, key: ViewKey, value: Option<&[u8]>, revision: Revision) {
        if self.ahead.get(&key).is_none_or(|known| *known < revision) {
            self.put(key, value, revision);
        }
    }

    /// Records that the watch has delivered everything up to a revision.
    pub(crate) fn reach(&mut self, revision: Revision) {
        self.ahead.retain(|_, at| *at > revision);
    }

    /// A value that does not decode counts as absent. Operations read it again and report the
    /// error.
    fn put(&mut self, key: ViewKey, value: Option<&[u8]>, revision: Revision) {
        match key {
            ViewKey::Gate => {
                let gate = value.and_then(|value| RunStateRecord::decode(value).ok());
                self.gate = gate.map(|gate| (gate, revision));
            }
            ViewKey::Open(shard) => match value {
                Some(_) => self.add_open(shard),
                None => self.remove_open(shard),
            },
            ViewKey::Owner(shard) => {
                let binding = value.and_then(|value| BindingRecord::decode(value).ok());
                let owner = binding.map(|BindingRecord { fence, deadline, .. }| {
                    let known = self.owners.get(&shard).filter(|known| known.fence == fence);
                    let deadline = known.map_or(deadline, |known| known.deadline.max(deadline));
                    Owner { fence, deadline }
                });
                match owner {
                    Some(owner) => self.owners.insert(shard, owner),
                    None => self.owners.remove(&shard),
                };
                self.refused.remove(&shard);
                self.settle(shard);
            }
            ViewKey::Waiting(worker) => {
                let waiting = value.and_then(|value| WaitingWorkerRecord::decode(value).ok());
                match waiting {
                    Some(waiting) => self.waiting.wait(worker, waiting.until),
                    None => self.waiting.stop(worker),
                }
            }
            ViewKey::SplitRequest(shard) => {
                let request = value.and_then(|value| SplitRequestRecord::decode(value).ok());
                match request {
                    Some(request) => self.split_requests.insert(shard, request),
                    None => self.split_requests.remove(&shard),
                };
            }
            ViewKey::Requester(_) => {}
        }
    }

    pub(crate) const fn gate(&self) -> Option<(RunStateRecord, Revision)> {
        self.gate
    }

    /// Whether the run has ended or is deleted.
    pub(crate) fn is_over(&self) -> bool {
        self.gate.is_none_or(|(gate, _)| gate.status.is_terminal())
    }

    /// Whether waiting workers should try to claim.
    pub(crate) fn is_inviting(&self) -> bool {
        let is_untried = |shard| !self.tried.contains(shard);
        self.hands_out() && self.free.iter().any(is_untried)
    }

    fn hands_out(&self) -> bool {
        self.gate.is_some_and(|(gate, _)| hands_out(gate.status, gate.paused))
    }

    fn add_open(&mut self, shard: ShardId) {
        if !self.open.contains_key(&shard) {
            self.make_free(shard);
            self.settle(shard);
        }
    }

    fn remove_open(&mut self, shard: ShardId) {
        self.unfree(shard);
        self.open.remove(&shard);
        self.refused.remove(&shard);
    }

    /// Updates the index of a shard: held or free.
    fn settle(&mut self, shard: ShardId) {
        let Some(current) = self.open.get(&shard).copied() else { return };
        // A binding below the floor belongs to a stale lease.
        let owner = self.owners.get(&shard).filter(|owner| owner.fence >= self.fence_floor);
        let deadline = owner.map(|owner| owner.deadline).max(self.refused.get(&shard).copied());
        let until = deadline.map(|deadline| deadline.saturating_add(self.skew_ms));
        let wanted = until.map(|until| Claimability::Held { until });
        match (current, wanted) {
            (Claimability::Free { .. }, None) => {}
            (current, Some(wanted)) if current == wanted => {}
            (_, None) => {
                self.unfree(shard);
                self.make_free(shard);
            }
            (_, Some(Claimability::Held { until })) => {
                self.unfree(shard);
                self.held.insert((until, shard));
                self.open.insert(shard, Claimability::Held { until });
            }
            (_, Some(Claimability::Free { .. })) => {}
        }
    }

    fn make_free(&mut self, shard: ShardId) {
        self.open.insert(shard, Claimability::Free { index: self.free.len() });
        self.free.push(shard);
    }

    /// Removes a shard from its index.
    fn unfree(&mut self, shard: ShardId) {
        match self.open.get(&shard) {
            Some(&Claimability::Free { index }) if index < self.free.len() => {
                self.free.swap_remove(index);
                // The last entry has moved to this index, unless it was removed itself.
                if let Some(moved) = self.free.get(index) {
                    self.open.insert(*moved, Claimability::Free { index });
                }
            }
            Some(&Claimability::Held { until }) => {
                self.held.remove(&(until, shard));
            }
            Some(Claimability::Free { .. }) | None => {}
        }
    }

    /// Moves shards with expired leases to the free ones.
    fn expire(&mut self, now: LogicalTime) {
        while let Some(&(until, shard)) = self.held.first() {
            if now < until {
                break;
            }
            self.held.remove(&(until, shard));
            self.make_free(shard);
        }
    }

    pub(crate) fn reserve_candidates(
        &mut self,
        worker: WorkerId,
        now: LogicalTime,
        limit: usize,
    ) -> Vec<ShardId> {
        self.expire(now);
        let candidates = rotated(&self.free, worker);
        let untried = candidates.filter(|shard| !self.tried.contains(shard));
        let chosen: Vec<ShardId> = untried.take(limit).copied().collect();
        self.tried.extend(chosen.iter().copied());
        chosen
    }

    pub(crate) fn give_back(&mut self, shards: &[ShardId]) {
        for shard in shards {
            self.tried.remove(shard);
        }
    }

    pub(crate) fn note_deadline(
        &mut self,
        shard: ShardId,
        fence: FenceEpoch,
        deadline: LogicalTime,
    ) {
        if let Some(owner) = self.owners.get_mut(&shard).filter(|owner| owner.fence == fence) {
            owner.deadline = owner.deadline.max(deadline);
            self.settle(shard);
        }
    }

    pub(crate) fn note_held(&mut self, shard: ShardId, deadline: LogicalTime) {
        if self.open.contains_key(&shard) {
            let until = self.refused.entry(shard).or_insert(deadline);
            *until = deadline.max(*until);
            self.settle(shard);
        }
    }

    pub(crate) fn note_settled(&mut self, shard: ShardId) {
        self.remove_open(shard);
    }

    pub(crate) fn capacity(&mut self, now: LogicalTime) -> CapacityHint {
        self.expire(now);
        CapacityHint::of(
            self.hands_out(),
            self.free.len(),
            self.held.first().map(|(until, _)| *until),
            self.waiting.count(now),
        )
    }

    /// The notice for the holder of a shard; none if the gate is unknown.
    pub(crate) fn notice(
        &self,
        shard: ShardId,
        fence: FenceEpoch,
        now: LogicalTime,
    ) -> Option<HolderNotice> {
        let (gate, _) = self.gate?;
        // A request is void once its holder has lost the shard.
        let is_held = self.owners.get(&shard).is_some_and(|owner| owner.fence == fence);
        let request =
            self.split_requests.get(&shard).filter(|request| is_held && request.fence == fence);
        Some(HolderNotice {
            paused: gate.paused,
            split_request: request.and_then(|request| request.slot.open_at(now)),
        })
    }

    pub(crate) fn is_waiting(&self, worker: WorkerId) -> bool {
        self.waiting.until(worker).is_some()
    }
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::limits::MAX_WAITING_WORKERS;

    use super::*;

    #[test]
    fn expired_waiting_workers_do_not_hide_others() {
        let mut state = ViewState::new(0, FenceEpoch::INITIAL);
        let mut wait = |worker, until| {
            let (key, until) = (ViewKey::Waiting(WorkerId::from_raw(worker)), at(until));
            state.apply_watched(
                key,
                Some(&WaitingWorkerRecord { until }.encode()),
                Revision::new(1),
            );
        };
        let dead = MAX_WAITING_WORKERS as u64;
        (0..dead).for_each(|worker| wait(worker, 10));
        (dead..dead + 3).for_each(|worker| wait(worker, 100));
        assert_eq!(state.capacity(at(50)).waiting_workers, 3);
        assert!(state.is_waiting(WorkerId::from_raw(dead)));
    }

    #[test]
    fn reopened_shard_is_free() {
        let shard = ShardId::from_raw(7);
        let mut state = ViewState::new(0, FenceEpoch::INITIAL);
        let mut revision = 0;
        let mut set_open = |state: &mut ViewState, open: bool| {
            revision += 1;
            let value = open.then_some(&b""[..]);
            state.apply_watched(ViewKey::Open(shard), value, Revision::new(revision));
        };
        let free = |state: &mut ViewState| {
            let shards = state.reserve_candidates(WorkerId::from_raw(1), at(10), 1);
            state.give_back(&shards);
            shards == [shard]
        };
        set_open(&mut state, true);
        assert!(free(&mut state));
        state.note_held(shard, at(1_000));
        assert!(!free(&mut state), "a shard that could not be acquired is free");
        set_open(&mut state, false);
        set_open(&mut state, true);
        assert!(free(&mut state));
    }

    const fn at(millis: u64) -> LogicalTime {
        LogicalTime::from_millis(millis)
    }
}
