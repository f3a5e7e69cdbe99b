//! The real engine in a simulated world: processes, a store and the network between them.
//!
//! Everything runs on one thread, on a virtual clock, in an order drawn from the seed. Several
//! processes, each with an engine and a calendar of its own, share one store. Their lines to it
//! lose, delay, repeat and reorder; the store shows old states, forgets its history, ends sessions
//! early or late and refuses to write; processes crash and stand still; records are damaged.
//!
//! Judged is what is stored. Each revision is taken apart into what it did and put to the same
//! oracles that judge the in-memory backend; and whatever callers are told is held against that
//! history: what was acknowledged is in it, what was denied is not, and what is unknown may be.

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
use listening::TOLD;
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

/// The oracles of these worlds, but for most of those that judge the in-memory backend as well.
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
    TOLD,
    REFUSALS,
    UNHELD,
    LIVENESS,
];

/// Acts of chaos per seed.
pub const ACTS: u64 = 900;
/// From how many seeds on a sweep must have seen every fault.
pub const FULL_SWEEP: u64 = 200;
/// From how many seeds on it must have seen every refusal.
pub const COVERING_SWEEP: u64 = 1_000;

/// What a world leaves behind.
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
