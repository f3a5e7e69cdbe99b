//! Many worlds, one after the other on each core.

use std::fmt::Write;
use std::ops::Range;

use super::fault::ClusterFault;
use super::tally::{ClusterTally, OUTCOMES};
use super::{Report, live};
use crate::ground::fault::StoreFault;
use crate::sweep::{Failure, Kind, live_through};

/// Acts of chaos per seed.
pub const ACTS: u64 = 500;
/// From how many seeds on a sweep must have seen everything.
pub const FULL_SWEEP: u64 = 200;

/// What of a store can go wrong for a cluster.
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
    StoreFault::ClockJumped,
    StoreFault::ClockSetBack,
];

/// What many worlds came to.
#[derive(Clone, Debug, Default)]
pub struct ClusterSweep {
    /// What happened in all of them.
    pub tally: ClusterTally,
    /// Those that broke a sentence, by seed.
    pub failures: Vec<Failure>,
}

impl ClusterSweep {
    /// Lives through `seeds`, `acts` of chaos each, on all cores.
    #[must_use]
    pub fn run(seeds: Range<u64>, acts: u64) -> Self {
        let kind = Kind { flags: &["--clusters"], steps: ACTS };
        let lived = |seed| {
            let Report { findings, tally, trace } = live(seed, acts, false);
            (findings, tally, trace)
        };
        let (tally, failures) = live_through(&kind, seeds, acts, lived, ClusterTally::add);
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
        let others = ClusterFault::ALL.iter().filter(|it| !tally.faults.contains_key(it));
        let unseen = store.map(|it| it.words()).chain(others.map(|it| it.words()));
        complaints.extend(unseen.map(|words| format!("there was never this fault: {words}")));
        let outcomes = OUTCOMES.iter().filter(|it| !tally.calls.contains_key(*it));
        complaints.extend(outcomes.map(|it| format!("no call ever had this outcome: {it}")));
        complaints
    }
}

/// The table at the end of a sweep.
#[must_use]
pub fn table(sweep: &ClusterSweep) -> String {
    let tally = &sweep.tally;
    let mut text = String::new();
    let (hours, minutes) = (tally.simulated_ms / 3_600_000, tally.simulated_ms / 60_000 % 60);
    // Writing to a string cannot fail.
    let mut row = |name: &str, value: String| _ = writeln!(text, "  {name:<58}{value:>16}");
    row("seeds", tally.seeds.to_string());
    row("of which nothing went wrong but what was planned", tally.calm_seeds.to_string());
    row("commits that changed the cluster", tally.steps.to_string());
    row("simulated", format!("{hours} h {minutes} min"));
    row("claims and releases", tally.claims.to_string());
    row("shards that got another target", tally.moves.to_string());
    row("changes of who leads", tally.leaders.to_string());
    row("nodes drained", tally.drains.to_string());
    row("writes refused for a stale fence", tally.stale_writes.to_string());
    for (fault, count) in &tally.store_faults {
        row(fault.words(), count.to_string());
    }
    for (fault, count) in &tally.faults {
        row(fault.words(), count.to_string());
    }
    for (outcome, count) in &tally.calls {
        row(&format!("calls: {outcome}"), count.to_string());
    }
    row("violations", sweep.failures.len().to_string());
    text
}
