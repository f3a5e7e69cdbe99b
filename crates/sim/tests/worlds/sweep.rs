//! Lives through a thousand worlds: nothing may break, and everything that can happen must.

use shardwright_sim::memory::{ACTS, FULL_SWEEP, MemoryWorld};
use shardwright_sim::sweep::Sweep;

#[test]
fn a_thousand_worlds_break_no_sentence_and_leave_nothing_untried() {
    let sweep = Sweep::<MemoryWorld>::run(0..FULL_SWEEP, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.chaos_steps >= FULL_SWEEP * ACTS, "{} steps", sweep.tally.chaos_steps);
}
