//! The stored engine in worlds around a simulated store: no oracle is violated, every fault occurs,
//! and the same seed gives the same trace.

use shardwright_sim::stored::{self, ACTS, Report, StoredWorld};
use shardwright_sim::sweep::Sweep;

/// Worlds of the sweep.
const SEEDS: u64 = 1_000;

#[test]
fn stored_worlds_violate_no_oracle_and_meet_every_fault() {
    let sweep = Sweep::<StoredWorld>::run(0..SEEDS, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.unknown > 0 && sweep.tally.collected > 0, "{table}");
}

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn same_seed_gives_the_same_stored_trace() {
    for seed in 0..30 {
        let one = stored::live(seed, ACTS, true);
        let other = std::thread::spawn(move || stored::live(seed, ACTS, true)).join().unwrap();
        assert!(bytes(&one).len() > 5_000, "the trace of seed {seed} is short");
        assert!(bytes(&one) == bytes(&other), "seed {seed} gives two traces");
        assert_eq!(one.tally, other.tally);
    }
}
