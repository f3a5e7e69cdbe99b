//! Real nodes, gates and leaders in a simulated world, and clients that call objects through them.
//!
//! It stands on the same runtime as the worlds of [`crate::stored`]: one thread, a virtual clock,
//! lines to a store on which everything can go wrong. On it run whole processes of the crate
//! `node`, each with a line to every other, and objects that count, whose own store refuses a stale
//! fence. Processes crash and stand still, lines are cut, leaders are deposed, sessions end early
//! and late; and beside all that nodes join and drain, and operators move, pin and freeze.
//!
//! Some worlds are calm: nothing happens there but what is planned, and then no call may fail.
//! In every world, faults stop in the end and everything has to come to rest. In some of them, then
//! one node ceases to claim and another dies, and others have to take over in time.

mod calls;
mod counter;
mod director;
mod fault_plan;
mod fenced_store;
mod operators;
pub mod oracle;
mod parts;
mod phases;
mod settings;
mod stored_state;
mod takeover;
mod tally;
mod wire;

pub use tally::{ClusterFault, ClusterTally, OUTCOMES};

use crate::fault::never;
use crate::oracle::{ASSERTIONS, Finding};
use crate::planted::clusters::ClusterBug;
use crate::report::Table;
use crate::runtime::fault::OF_ANY_PROCESS;
use crate::sweep::{self, World};
use crate::trace::Trace;

/// Acts of chaos per seed.
pub const ACTS: u64 = 500;
/// From how many seeds on a sweep must have seen everything.
pub const FULL_SWEEP: u64 = 200;

/// What a world leaves behind.
pub type Report = sweep::Report<ClusterTally>;

/// Worlds of nodes, gates and leaders.
pub struct ClusterWorld;

impl World for ClusterWorld {
    type Tally = ClusterTally;
    const FLAGS: &'static [&'static str] = &["--clusters"];
    const ACTS: u64 = ACTS;

    fn live(seed: u64, acts: u64, keep_trace: bool) -> Report {
        live(seed, acts, keep_trace)
    }

    fn add(sum: &mut ClusterTally, one: &ClusterTally) {
        sum.add(one);
    }

    fn missing(tally: &ClusterTally) -> Vec<String> {
        if tally.seeds < FULL_SWEEP {
            return Vec::new();
        }
        let store = OF_ANY_PROCESS.iter().filter(|it| !tally.store_faults.contains_key(it));
        let others = ClusterFault::ALL.iter().filter(|it| !tally.faults.contains_key(it));
        let mut missing = never(store.map(|it| it.words()).chain(others.map(|it| it.words())));
        let outcomes = OUTCOMES.iter().filter(|it| !tally.calls.contains_key(*it));
        missing.extend(outcomes.map(|it| format!("no call ever had this outcome: {it}")));
        missing
    }

    fn rows(tally: &ClusterTally, table: &mut Table) {
        table.row("seeds", tally.seeds);
        table.row("of which nothing went wrong but what was planned", tally.calm_seeds);
        table.row("commits that changed the cluster", tally.steps);
        table.simulated(tally.simulated_ms);
        table.row("claims and releases", tally.claims);
        table.row("shards that got another target", tally.moves);
        table.row("changes of who leads", tally.leaders);
        table.row("nodes drained", tally.drains);
        table.row("writes refused for a stale fence", tally.stale_writes);
        table.counts(tally.store_faults.iter().map(|(fault, count)| (fault.words(), *count)));
        table.counts(tally.faults.iter().map(|(fault, count)| (fault.words(), *count)));
        for (outcome, count) in &tally.calls {
            table.row(&format!("calls: {outcome}"), count);
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
