//! The real worker loop in a simulated world, with a scripted source, handler and sink.
//!
//! Worker processes share one simulated store, each over a faulty link and with a real stored
//! coordinator. Everything runs on one thread, on a virtual clock, in an order drawn from the
//! seed. Processes crash and pause, handlers hang and fail, the sink and the source fail, and an
//! operator pauses, cancels and unparks. Then faults stop, and all work must be done.
//!
//! Results are judged from what is stored: at every commit that moves a cursor, the extents that
//! its token names are read from the scripted sink and compared with the source.

mod director;
mod fault_plan;
pub(crate) mod handler;
mod observer;
mod operator;
pub mod oracle;
mod phases;
pub(crate) mod script;
mod settings;
pub(crate) mod sink;
pub(crate) mod source;
mod stored_state;
mod tally;

pub use tally::{WorkerFault, WorkerTally};

use observer::EVENTS;

use crate::fault::never;
use crate::oracle::{ASSERTIONS, Finding};
use crate::planted::workers::WorkerBug;
use crate::report::Table;
use crate::runtime::fault::{OF_ANY_PROCESS, StoreFault};
use crate::sweep::{self, World};
use crate::trace::Trace;

/// Acts of chaos per seed.
pub const ACTS: u64 = 400;
/// Number of seeds from which on a sweep must have seen every fault and event.
pub const FULL_SWEEP: u64 = 300;

/// The result of a world.
pub type Report = sweep::Report<WorkerTally>;

/// Worlds of the real worker loop.
pub struct WorkerWorld;

impl World for WorkerWorld {
    type Tally = WorkerTally;
    const FLAGS: &'static [&'static str] = &["--workers"];
    const ACTS: u64 = ACTS;

    fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
        live(seed, acts, keep_trace)
    }

    fn add(sum: &mut WorkerTally, one: &WorkerTally) {
        sum.add(one);
    }

    fn missing(tally: &WorkerTally) -> Vec<String> {
        if tally.seeds < FULL_SWEEP {
            return Vec::new();
        }
        let store = OF_ANY_PROCESS.iter().chain(&[StoreFault::PausedBeyondLease]);
        let store = store.filter(|it| !tally.store_faults.contains_key(it));
        let others = WorkerFault::ALL.iter().filter(|it| !tally.faults.contains_key(it));
        let mut missing = never(store.map(|it| it.words()).chain(others.map(|it| it.words())));
        let events = EVENTS.iter().filter(|it| !tally.events.contains_key(*it));
        missing.extend(events.map(|it| format!("no worker ever reported: {it}")));
        missing
    }

    fn rows(tally: &WorkerTally, table: &mut Table) {
        table.row("seeds", tally.seeds);
        table.row("seeds without faults", tally.calm_seeds);
        table.row("seeds without faults, all work in one shard", tally.lopsided_seeds);
        table.simulated(tally.simulated_ms);
        table.row("items handed to handlers", tally.calls);
        table.row("cursors moved", tally.commits);
        table.row("items with a result in the end", tally.items);
        table.row("items without a result, parked or cancelled", tally.parked);
        table.row("shards in the end", tally.shards);
        table.counts(tally.store_faults.iter().map(|(fault, count)| (fault.words(), *count)));
        table.counts(tally.faults.iter().map(|(fault, count)| (fault.words(), *count)));
        for (event, count) in &tally.events {
            table.row(&format!("event: {event}"), count);
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
pub fn live_with(seed: u64, acts: u64, keep_trace: bool, bug: Option<WorkerBug>) -> Report {
    match director::Director::new(seed, keep_trace, bug) {
        Ok(director) => director.live(acts),
        Err(error) => Report {
            findings: vec![Finding { oracle: ASSERTIONS.name, text: error.to_string() }],
            tally: WorkerTally::default(),
            trace: Trace::new(keep_trace),
        },
    }
}
