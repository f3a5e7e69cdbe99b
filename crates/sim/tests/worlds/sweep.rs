//! A thousand worlds of the in-memory reference: no oracle is violated, and every refusal occurs.

use shardwright_sim::memory::{ACTS, FULL_SWEEP, MemoryWorld};
use shardwright_sim::sweep::Sweep;

#[test]
fn memory_worlds_violate_no_oracle_and_meet_every_refusal() {
    let sweep = Sweep::<MemoryWorld>::run(0..FULL_SWEEP, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.chaos_steps >= FULL_SWEEP * ACTS, "{} steps", sweep.tally.chaos_steps);
}
