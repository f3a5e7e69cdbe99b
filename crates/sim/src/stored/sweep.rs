//! Many worlds, one after the other on each core.

use std::fmt::Write;
use std::ops::Range;

use super::{Report, live};
use crate::coverage;
use crate::ground::fault::StoreFault;
use crate::sweep::{Failure, Kind, live_through};
use crate::tally::RunTally;

/// Acts of chaos per seed.
pub const ACTS: u64 = 900;
/// From how many seeds on a sweep must have seen every fault.
pub const FULL_SWEEP: u64 = 200;
/// From how many seeds on it must have seen every refusal.
pub const COVERING_SWEEP: u64 = 1_000;

/// What many worlds came to.
#[derive(Clone, Debug, Default)]
pub struct StoredSweep {
    /// What happened in all of them.
    pub tally: RunTally,
    /// Those that broke a sentence, by seed.
    pub failures: Vec<Failure>,
}

impl StoredSweep {
    /// Lives through `seeds`, `acts` of chaos each, on all cores.
    #[must_use]
    pub fn run(seeds: Range<u64>, acts: u64) -> Self {
        let kind = Kind { flags: &["--engine"], steps: ACTS };
        let lived = |seed| {
            let Report { findings, tally, trace } = live(seed, acts, false);
            (findings, tally, trace)
        };
        let (tally, failures) = live_through(&kind, seeds, acts, lived, RunTally::add);
        Self { tally, failures }
    }

    /// Everything that makes the sweep a failure, in words.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.failures.iter().map(Failure::describe).collect();
        if self.tally.counts.seeds >= FULL_SWEEP {
            let unseen = StoreFault::ALL.iter().filter(|it| !self.tally.faults.contains_key(it));
            complaints
                .extend(unseen.map(|it| format!("there was never this fault: {}", it.words())));
        }
        if self.tally.counts.seeds >= COVERING_SWEEP {
            complaints.extend(coverage::missing_around_a_store(&self.tally.counts));
        }
        complaints
    }
}

/// The table at the end of a sweep.
#[must_use]
pub fn table(sweep: &StoredSweep) -> String {
    let RunTally { counts, faults, answers, unknown, not_applied, collected } = &sweep.tally;
    let mut text = String::new();
    let (hours, minutes) = (counts.simulated_ms / 3_600_000, counts.simulated_ms / 60_000 % 60);
    // Writing to a string cannot fail.
    let mut row = |name: &str, value: String| _ = writeln!(text, "  {name:<58}{value:>16}");
    row("seeds", counts.seeds.to_string());
    row("commits that changed a run or a shard", counts.steps.to_string());
    row("simulated", format!("{hours} h {minutes} min"));
    row("answers", answers.to_string());
    row("accepted", counts.accepted_steps.to_string());
    row("refused", counts.refused_steps.to_string());
    row("unknown outcomes", unknown.to_string());
    row("not applied", not_applied.to_string());
    row("runs completed and kept", counts.runs.to_string());
    row("runs taken away in chaos", collected.to_string());
    for (fault, count) in faults {
        row(fault.words(), count.to_string());
    }
    let mut refusals = std::collections::BTreeMap::<&str, u64>::new();
    for ((_, refusal), count) in &counts.refusals {
        *refusals.entry(refusal).or_default() += count;
    }
    for (refusal, count) in refusals {
        row(&format!("refused: {refusal}"), count.to_string());
    }
    row("violations", sweep.failures.len().to_string());
    text
}
