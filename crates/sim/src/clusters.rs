//! Real nodes, gates and leaders in a simulated world, and clients that call objects through them.
//!
//! It stands on the same ground as the worlds of [`crate::stored`]: one thread, a virtual clock,
//! lines to a store on which everything can go wrong. On it run whole processes of the crate
//! `node`, each with a line to every other, and objects that count, whose own store refuses a stale
//! fence. Processes crash and stand still, lines are cut, leaders are deposed, sessions end early
//! and late; and beside all that nodes join and drain, and operators move, pin and freeze.
//!
//! Some worlds are calm: nothing happens there but what is planned, and then no call may fail.
//! In every world, faults stop in the end and everything has to come to rest. In some of them, then
//! one node ceases to claim and another dies, and others have to take over in time.

mod calls;
mod chaos;
mod counter;
mod director;
mod fault;
mod heal;
mod mishap;
mod operators;
pub mod oracle;
mod ordeal;
mod parts;
mod settings;
mod sweep;
mod tally;
mod truth;
mod vault;
mod wire;

pub use fault::ClusterFault;
pub use sweep::{ACTS, ClusterSweep, FULL_SWEEP, table};
pub use tally::{ClusterTally, OUTCOMES};

use crate::oracle::{ASSERTIONS, Finding};
use crate::planted::clusters::ClusterBug;
use crate::trace::Trace;

/// What a world that came to its end leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was found to be false; nothing, if all is well.
    pub findings: Vec<Finding>,
    /// What happened, counted.
    pub tally: ClusterTally,
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
pub fn live_with(seed: u64, acts: u64, keep_trace: bool, bug: Option<ClusterBug>) -> Report {
    match director::Director::new(seed, keep_trace, bug) {
        Ok(director) => director.live(acts),
        Err(text) => Report {
            findings: vec![Finding { oracle: ASSERTIONS.name, text }],
            tally: ClusterTally::default(),
            trace: Trace::new(keep_trace),
        },
    }
}
