//! Workers with a refused claim, and how long they count as waiting.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::limits::MAX_WAITING_WORKERS;
use shardwright_contracts::{LogicalTime, WorkerId};

/// The workers that wait for shards of one run. Holders see their number.
///
/// A worker counts for a limited time, because it may have stopped. The time is
/// [`RunConfig::waiting_until`](crate::RunConfig::waiting_until).
#[derive(Clone, Debug, Default)]
pub struct WaitingWorkers {
    by_time: BTreeSet<(LogicalTime, WorkerId)>,
    until: BTreeMap<WorkerId, LogicalTime>,
}

impl WaitingWorkers {
    /// No worker waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { by_time: BTreeSet::new(), until: BTreeMap::new() }
    }

    /// Counts a worker as waiting until `until`, replacing its earlier time. A full set evicts the
    /// worker whose time ends first. Expired entries may not have been removed yet, and must not
    /// displace live workers.
    pub fn wait(&mut self, worker: WorkerId, until: LogicalTime) {
        self.stop(worker);
        self.by_time.insert((until, worker));
        self.until.insert(worker, until);
        if self.until.len() > MAX_WAITING_WORKERS
            && let Some((_, first)) = self.by_time.pop_first()
        {
            self.until.remove(&first);
        }
    }

    /// Removes a worker that got a shard or stopped waiting.
    pub fn stop(&mut self, worker: WorkerId) {
        if let Some(until) = self.until.remove(&worker) {
            self.by_time.remove(&(until, worker));
        }
    }

    /// The end of a worker's waiting time, even if it has passed.
    #[must_use]
    pub fn until(&self, worker: WorkerId) -> Option<LogicalTime> {
        self.until.get(&worker).copied()
    }

    /// The number of workers that wait at `now`. A worker does not count at the end of its time.
    #[must_use]
    pub fn count(&self, now: LogicalTime) -> usize {
        self.by_time.len() - self.expired(now).count()
    }

    /// Removes workers whose time has passed.
    pub fn forget_expired(&mut self, now: LogicalTime) {
        loop {
            let Some((_, worker)) = self.expired(now).next() else { return };
            self.stop(worker);
        }
    }

    fn expired(&self, now: LogicalTime) -> impl Iterator<Item = (LogicalTime, WorkerId)> + '_ {
        self.by_time.iter().copied().take_while(move |(until, _)| *until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_workers_are_bounded() {
        let mut waiting = WaitingWorkers::new();
        let (now, later) = (LogicalTime::from_millis(1), LogicalTime::from_millis(2));
        (0..=MAX_WAITING_WORKERS as u64).for_each(|id| waiting.wait(WorkerId::from_raw(id), later));
        assert_eq!(waiting.count(now), MAX_WAITING_WORKERS);
        waiting.forget_expired(later);
        waiting.wait(WorkerId::from_raw(7), LogicalTime::from_millis(3));
        assert_eq!(waiting.count(later), 1);
    }

    #[test]
    fn full_set_evicts_the_shortest_wait() {
        let at = LogicalTime::from_millis;
        let mut waiting = WaitingWorkers::new();
        let max = MAX_WAITING_WORKERS as u64;
        (0..max).for_each(|id| waiting.wait(WorkerId::from_raw(id), at(10 + id)));
        waiting.wait(WorkerId::from_raw(max), at(1));
        assert_eq!(waiting.until(WorkerId::from_raw(max)), None);
        waiting.wait(WorkerId::from_raw(max), at(100));
        assert_eq!(waiting.until(WorkerId::from_raw(0)), None);
        assert_eq!(waiting.until(WorkerId::from_raw(max)), Some(at(100)));
        assert_eq!(waiting.count(at(0)), MAX_WAITING_WORKERS);
    }

    #[test]
    fn worker_counts_once_until_its_time_ends() {
        let (one, other) = (WorkerId::from_raw(1), WorkerId::from_raw(2));
        let at = LogicalTime::from_millis;
        let mut waiting = WaitingWorkers::new();
        waiting.wait(one, at(30));
        waiting.wait(one, at(10));
        waiting.wait(other, at(20));
        assert_eq!([9, 10, 19, 20].map(|now| waiting.count(at(now))), [2, 1, 1, 0]);
        waiting.forget_expired(at(10));
        assert_eq!((waiting.until(one), waiting.until(other)), (None, Some(at(20))));
        waiting.stop(other);
        assert_eq!(waiting.count(at(0)), 0);
    }
}
