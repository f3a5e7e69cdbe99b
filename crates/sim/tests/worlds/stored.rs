//! The stored engine in worlds around a simulated store: nothing may break, everything that can go
//! wrong must, and the same seed gives the same bytes.

use shardwright_sim::stored::{self, ACTS, Report, StoredWorld};
use shardwright_sim::sweep::Sweep;

/// Worlds of the sweep.
const SEEDS: u64 = 1_000;

#[test]
fn a_thousand_worlds_around_a_store_break_no_sentence_and_see_every_fault() {
    let sweep = Sweep::<StoredWorld>::run(0..SEEDS, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.unknown > 0 && sweep.tally.collected > 0, "{table}");
}

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn the_same_seed_gives_byte_identical_traces_of_the_stored_engine() {
    for seed in 0..30 {
        let one = stored::live(seed, ACTS, true);
        let other = std::thread::spawn(move || stored::live(seed, ACTS, true)).join().unwrap();
        assert!(bytes(&one).len() > 5_000, "seed {seed} tells a story");
        assert!(bytes(&one) == bytes(&other), "seed {seed} tells two stories");
        assert_eq!(one.tally, other.tally);
    }
}
