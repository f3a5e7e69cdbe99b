use std::collections::BTreeMap;

use super::fault::WorkerFault;
use crate::ground::fault::StoreFault;

/// Counts of what happened, of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTally {
    /// Seeds.
    pub seeds: u64,
    /// Seeds in which nothing failed.
    pub calm_seeds: u64,
    /// Calm seeds with all work in one shard.
    pub lopsided_seeds: u64,
    /// Milliseconds on the world's clock.
    pub simulated_ms: u64,
    /// Items that the handler was called for, retries included.
    pub calls: u64,
    /// Cursors moved.
    pub commits: u64,
    /// Items with a result in the end.
    pub items: u64,
    /// Items without one in the end.
    pub parked: u64,
    /// Shards in the end.
    pub shards: u64,
    /// Events of workers, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Faults around the store.
    pub store_faults: BTreeMap<StoreFault, u64>,
    /// Faults of everything else.
    pub faults: BTreeMap<WorkerFault, u64>,
}

impl WorkerTally {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.calm_seeds += other.calm_seeds;
        self.lopsided_seeds += other.lopsided_seeds;
        self.simulated_ms += other.simulated_ms;
        self.calls += other.calls;
        self.commits += other.commits;
        self.items += other.items;
        self.parked += other.parked;
        self.shards += other.shards;
        merge(&mut self.events, &other.events);
        merge(&mut self.store_faults, &other.store_faults);
        merge(&mut self.faults, &other.faults);
    }
}

fn merge<K: Copy + Ord>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(*key).or_default() += count;
    }
}
