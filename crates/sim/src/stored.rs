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
pub(crate) mod books;
mod ceiling;
mod ledger;
mod listening;
mod mishap;
mod offers;
mod requests;
mod settings;
mod shown;
mod steps;
mod subject;
mod sweep;

pub use crate::ground::fault::StoreFault;
pub use sweep::{ACTS, COVERING_SWEEP, FULL_SWEEP, StoredSweep, table};

use answers::{ACKNOWLEDGED, SHOWN};
use books::{BOUND, COUNTS, DECODES, REMOVAL, TIME, TOGETHER};
use ledger::{INERT, ONCE, QUARANTINE};
use listening::TOLD;
use steps::EXPLAINED;

use crate::director::{Director, Lived};
use crate::oracle::{Finding, LIVENESS, Oracle, TRUTH, UNHELD};
use crate::planted::stored::StoredBug;
use crate::tally::RunTally;
use crate::trace::Trace;

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
    TRUTH,
    UNHELD,
    LIVENESS,
];

/// What a world that came to its end leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found to be false; nothing, if all is well.
    pub findings: Vec<Finding>,
    /// What happened, counted.
    pub tally: RunTally,
    /// What happened, told.
    pub trace: Trace,
}

/// Lives through a world: `acts` of chaos, then healing.
#[must_use]
pub fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
    live_with(seed, acts, keep_trace, None)
}

/// Lives through a world in which a bug is planted.
#[must_use]
pub fn live_with(seed: u64, acts: u64, keep_trace: bool, bug: Option<StoredBug>) -> Report {
    let Lived { findings, tally, trace } = subject::world(seed, keep_trace, bug).live(acts);
    Report { findings, tally, trace }
}
