//! Lives through a thousand worlds: nothing may break, and everything that can happen must.

use shardwright_sim::report;
use shardwright_sim::sweep::{FULL_SWEEP, STEPS, Sweep};

#[test]
fn a_thousand_worlds_break_no_sentence_and_leave_nothing_untried() {
    let sweep = Sweep::run(0..FULL_SWEEP, STEPS);
    let (complaints, table) = (sweep.complaints(), report::table(&sweep));
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.chaos_steps >= FULL_SWEEP * STEPS, "{} steps", sweep.tally.chaos_steps);
}
