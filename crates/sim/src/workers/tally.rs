//! Faults around workers, and counts.

use std::collections::BTreeMap;

use crate::fault::faults;
use crate::runtime::fault::StoreFault;
use crate::tally::merge;

/// Counts of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTally {
    /// Seeds.
    pub seeds: u64,
    /// Seeds without faults.
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
    /// Items without a result in the end.
    pub parked: u64,
    /// Shards in the end.
    pub shards: u64,
    /// Events of workers, by name.
    pub events: BTreeMap<&'static str, u64>,
    /// Faults around the store.
    pub store_faults: BTreeMap<StoreFault, u64>,
    /// Other faults.
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

faults! {
    /// A fault of a worker's process, source, handler or sink, or an operator's intervention.
    WorkerFault {
        HandlerSlow = "handler slower than usual",
        HandlerHung = "handler hung for longer than its lease",
        HandlerFailed = "handler failed, retryable",
        HandlerShort = "handler returned fewer outcomes than items",
        HandlerUnable = "handler failed because a shared resource was missing",
        ItemPoisoned = "item that always fails",
        ItemKilled = "item that crashes the process",
        PageFailed = "page failed, retryable",
        PageRefused = "page failed permanently",
        PageSlow = "page delayed",
        PageShort = "page shorter than allowed",
        EstimateSlow = "estimate delayed",
        EstimateFailed = "estimate failed",
        EstimateWrong = "estimate wrong",
        SplitSlow = "split proposal delayed",
        SplitRefused = "source proposed no split",
        SplitFailed = "split proposal failed",
        SegmentSlow = "creation of a segment delayed",
        SegmentRefused = "segment could not be created",
        ReadSlow = "read of an earlier extent delayed",
        ReadFailed = "read of an earlier extent failed",
        AppendFailed = "append failed",
        SyncSlow = "sync delayed",
        SyncFailed = "sync failed before the results were durable",
        SyncReplyLost = "sync failed after the results were durable",
        CrashedInHandler = "process crashed while a handler ran",
        PausedInHandler = "process paused while a handler ran",
        CutInHandler = "process cut off from the store while a handler ran",
        SessionEndedInHandler = "session ended early while a handler ran",
        SkewBeyondAllowance = "wall clocks differ by more than the allowance",
        Stopped = "worker stopped by its operator",
        RunPaused = "run paused by an operator",
        RunCancelled = "run cancelled by an operator",
        ShardUnparked = "shard unparked by an operator",
    }
}
