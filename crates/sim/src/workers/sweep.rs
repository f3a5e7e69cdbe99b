//! Many worlds of workers, on all cores.

use std::fmt::Write;
use std::ops::Range;

use super::fault::WorkerFault;
use super::observer::EVENTS;
use super::tally::WorkerTally;
use super::{Report, live};
use crate::ground::fault::StoreFault;
use crate::sweep::{Failure, Kind, live_through};

/// Acts of chaos per seed.
pub const ACTS: u64 = 400;
/// From how many seeds on a sweep must have seen everything.
pub const FULL_SWEEP: u64 = 300;

/// Faults around the store that can meet a worker.
const STORE_FAULTS: &[StoreFault] = &[
    StoreFault::CommitLost,
    StoreFault::CommitLate,
    StoreFault::CommitDuplicated,
    StoreFault::ReplyLost,
    StoreFault::ConnectionReset,
    StoreFault::NotApplied,
    StoreFault::Overtaken,
    StoreFault::ReadFailed,
    StoreFault::ReadStale,
    StoreFault::ScanMoved,
    StoreFault::WatchDelayed,
    StoreFault::WatchBroken,
    StoreFault::WatchCompacted,
    StoreFault::SessionEndedEarly,
    StoreFault::SessionOutlived,
    StoreFault::KeepAliveLost,
    StoreFault::Compacted,
    StoreFault::DiskFull,
    StoreFault::Partitioned,
    StoreFault::RepliesCut,
    StoreFault::ProcessCrashed,
    StoreFault::ProcessPaused,
    StoreFault::PausedBeyondLease,
    StoreFault::ClockJumped,
    StoreFault::ClockSetBack,
];

/// What many worlds came to.
#[derive(Clone, Debug, Default)]
pub struct WorkerSweep {
    /// What happened in all of them.
    pub tally: WorkerTally,
    /// Those that broke a sentence, by seed.
    pub failures: Vec<Failure>,
}

impl WorkerSweep {
    /// Lives through `seeds`, `acts` of chaos each, on all cores.
    #[must_use]
    pub fn run(seeds: Range<u64>, acts: u64) -> Self {
        let kind = Kind { flags: &["--workers"], steps: ACTS };
        let lived = |seed| {
            let Report { findings, tally, trace } = live(seed, acts, false);
            (findings, tally, trace)
        };
        let (tally, failures) = live_through(&kind, seeds, acts, lived, WorkerTally::add);
        Self { tally, failures }
    }

    /// Everything that makes the sweep a failure, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.failures.iter().map(Failure::describe).collect();
        if self.tally.seeds < FULL_SWEEP {
            return complaints;
        }
        let tally = &self.tally;
        let store = STORE_FAULTS.iter().filter(|it| !tally.store_faults.contains_key(it));
        let others = WorkerFault::ALL.iter().filter(|it| !tally.faults.contains_key(it));
        let unseen = store.map(|it| it.words()).chain(others.map(|it| it.words()));
        complaints.extend(unseen.map(|words| format!("there was never this fault: {words}")));
        let events = EVENTS.iter().filter(|it| !tally.events.contains_key(*it));
        complaints.extend(events.map(|it| format!("no worker ever reported: {it}")));
        complaints
    }
}

/// The table at the end of a sweep.
#[must_use]
pub fn table(sweep: &WorkerSweep) -> String {
    let tally = &sweep.tally;
    let mut text = String::new();
    let (hours, minutes) = (tally.simulated_ms / 3_600_000, tally.simulated_ms / 60_000 % 60);
    // Writing to a string cannot fail.
    let mut row = |name: &str, value: String| _ = writeln!(text, "  {name:<58}{value:>16}");
    row("seeds", tally.seeds.to_string());
    row("of which nothing failed", tally.calm_seeds.to_string());
    row("of which one shard held all work", tally.lopsided_seeds.to_string());
    row("simulated", format!("{hours} h {minutes} min"));
    row("items handed to handlers", tally.calls.to_string());
    row("cursors moved", tally.commits.to_string());
    row("items with a result in the end", tally.items.to_string());
    row("items without one, parked or cancelled", tally.parked.to_string());
    row("shards in the end", tally.shards.to_string());
    for (fault, count) in &tally.store_faults {
        row(fault.words(), count.to_string());
    }
    for (fault, count) in &tally.faults {
        row(fault.words(), count.to_string());
    }
    for (event, count) in &tally.events {
        row(&format!("event: {event}"), count.to_string());
    }
    row("violations", sweep.failures.len().to_string());
    text
}
