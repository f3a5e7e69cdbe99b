//! The real worker loop in a simulated world, with a scripted source, handler and sink.
//!
//! Worker processes share one simulated store, each over a faulty line and a real stored
//! coordinator. Everything runs on one thread, on a virtual clock, in an order drawn from the
//! seed. Processes crash and pause, handlers hang and fail, the sink and the source fail, and an
//! operator pauses, cancels and unparks. Then faults stop, and all work has to be done.
//!
//! Results are judged from what is stored: at every commit that moves a cursor, the extents that
//! its token names are read from the scripted sink and compared with the source.

mod chaos;
mod director;
mod fault;
mod handler;
mod heal;
mod mishap;
mod observer;
mod operator;
pub mod oracle;
pub mod planted;
mod script;
mod settings;
mod sink;
mod source;
mod sweep;
mod tally;
mod truth;

pub use fault::WorkerFault;
pub use sweep::{ACTS, FULL_SWEEP, WorkerSweep, table};
pub use tally::WorkerTally;

use crate::oracle::{ASSERTIONS, Finding};
use crate::trace::Trace;

/// What a world that came to its end leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// Sentences found to be false.
    pub findings: Vec<Finding>,
    /// Counts of what happened.
    pub tally: WorkerTally,
    /// What happened, line by line.
    pub trace: Trace,
}

/// Lives through a world: `acts` of chaos, then healing.
#[must_use]
pub fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
    live_with(seed, acts, keep_trace, None)
}

/// Lives through a world with a bug planted in it.
fn live_with(seed: u64, acts: u64, keep_trace: bool, plant: Option<planted::Plant>) -> Report {
    match director::Director::new(seed, keep_trace, plant) {
        Ok(director) => director.live(acts),
        Err(error) => Report {
            findings: vec![Finding { oracle: ASSERTIONS.name, text: error.to_string() }],
            tally: WorkerTally::default(),
            trace: Trace::new(keep_trace),
        },
    }
}
