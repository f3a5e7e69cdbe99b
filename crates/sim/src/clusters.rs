//! Real nodes, gates and leaders in a simulated world, and clients that call objects through them.
//!
//! The runtime is that of [`crate::stored`]: one thread, a virtual clock and faulty links to a
//! store. Whole nodes and gates of the crate `node` run on it, with links between all of them. The
//! objects are counters in a second store, which rejects stale fences.
//!
//! Processes crash and pause, links are cut, leaders are deposed, and sessions end early or late.
//! Meanwhile nodes join and drain, and operators move, pin and freeze shards.
//!
//! Some worlds are calm: they have planned changes and no faults, and no call may fail. In every
//! world faults stop in the end, and the cluster must converge. In some worlds one node then stops
//! claiming and another dies, and the remaining nodes must take over in time.

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
/// Number of seeds from which on a sweep must have seen every fault and outcome.
pub const FULL_SWEEP: u64 = 200;

/// The result of a world.
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
        table.row("seeds without faults", tally.calm_seeds);
        table.row("changes of cluster records", tally.steps);
        table.simulated(tally.simulated_ms);
        table.row("claims and releases", tally.claims);
        table.row("shards with a new target", tally.moves);
        table.row("leader changes", tally.leaders);
        table.row("nodes drained", tally.drains);
        table.row("objects deleted", tally.deletions);
        table.row("objects evicted", tally.evictions);
        table.row("writes rejected for a stale fence", tally.stale_writes);
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
