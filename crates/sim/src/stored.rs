//! The stored coordinator in a simulated world: processes, a store and the network between them.
//!
//! Everything runs on one thread, on a virtual clock, in an order drawn from the seed. Several
//! processes, each with a coordinator and a wall clock of its own, share one store. Their links to
//! it lose, delay, repeat and reorder messages. The store serves stale reads, compacts its
//! history, ends sessions early or late, and refuses commits. Processes crash and pause. Records
//! are damaged.
//!
//! The oracles judge the stored history. Each revision is decomposed into steps, which the oracles
//! of the in-memory backend judge as well. Answers are compared with the history: acknowledged
//! effects are in it, refused ones are not, and unknown ones may be.

mod answers;
mod call_log;
mod ceiling;
mod fault_plan;
mod listening;
mod offers;
pub(crate) mod record_checks;
mod requests;
mod settings;
mod shown;
mod steps;
mod subject;

pub use crate::runtime::fault::StoreFault;

use answers::{ACKNOWLEDGED, SHOWN};
use call_log::{INERT, ONCE, QUARANTINE};
use listening::EVENTS;
use record_checks::{BOUND, COUNTS, DECODES, REMOVAL, TIME, TOGETHER};
use steps::EXPLAINED;

use crate::coverage;
use crate::director::{Director, Lived};
use crate::fault::never;
use crate::oracle::{LIVENESS, Oracle, REFUSALS, UNHELD};
use crate::planted::stored::StoredBug;
use crate::report::{self, Table};
use crate::sweep::{self, World};
use crate::tally::RunTally;

/// A director of a world around a store.
type StoredDirector = Director<subject::Stored>;

/// The oracles of these worlds, except most of those shared with the in-memory backend.
pub const ALL: &[&Oracle] = &[
    ACKNOWLEDGED,
    SHOWN,
    TOGETHER,
    COUNTS,
    BOUND,
    REMOVAL,
    TIME,
    DECODES,
    ONCE,
    INERT,
    QUARANTINE,
    EXPLAINED,
    EVENTS,
    REFUSALS,
    UNHELD,
    LIVENESS,
];

/// Acts of chaos per seed.
pub const ACTS: u64 = 900;
/// Number of seeds from which on a sweep must have seen every fault.
pub const FULL_SWEEP: u64 = 200;
/// Number of seeds from which on a sweep must have seen every refusal.
pub const COVERING_SWEEP: u64 = 1_000;

/// The result of a world.
pub type Report = sweep::Report<RunTally>;

/// Worlds around the stored coordinator.
pub struct StoredWorld;

impl World for StoredWorld {
    type Tally = RunTally;
    const FLAGS: &'static [&'static str] = &["--engine"];
    const ACTS: u64 = ACTS;

    fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
        live(seed, acts, keep_trace)
    }

    fn add(sum: &mut RunTally, one: &RunTally) {
        sum.add(one);
    }

    fn missing(tally: &RunTally) -> Vec<String> {
        let mut missing = Vec::new();
        if tally.counts.seeds >= FULL_SWEEP {
            let unseen = StoreFault::ALL.iter().filter(|it| !tally.faults.contains_key(it));
            missing.extend(never(unseen.map(|it| it.words())));
        }
        if tally.counts.seeds >= COVERING_SWEEP {
            missing.extend(coverage::missing_around_a_store(&tally.counts));
        }
        missing
    }

    fn rows(tally: &RunTally, table: &mut Table) {
        let RunTally { counts, faults, answers, unknown, not_applied, collected } = tally;
        table.row("seeds", counts.seeds);
        table.row("commits that changed a run or a shard", counts.steps);
        table.simulated(counts.simulated_ms);
        table.row("answers", answers);
        table.row("accepted", counts.accepted_steps);
        table.row("refused", counts.refused_steps);
        table.row("unknown outcomes", unknown);
        table.row("not applied", not_applied);
        table.row("runs completed and kept", counts.runs);
        table.row("runs deleted in chaos", collected);
        table.counts(faults.iter().map(|(fault, count)| (fault.words(), *count)));
        for (refusal, count) in report::refusals(counts) {
            table.row(&format!("refused: {refusal}"), count);
        }
    }
}

/// Runs a world: `acts` of chaos, then healing.
#[must_use]
pub fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
    live_with(seed, acts, keep_trace, None)
}

/// Runs a world in which a bug is planted.
#[must_use]
pub fn live_with(seed: u64, acts: u64, keep_trace: bool, bug: Option<StoredBug>) -> Report {
    let Lived { findings, tally, trace } = subject::world(seed, keep_trace, bug).live(acts);
    Report { findings, tally, trace }
}
