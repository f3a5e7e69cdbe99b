//! Nodes, gates and leaders in simulated worlds: no oracle is violated, every fault and outcome
//! occurs, and the same seed gives the same trace.

use shardwright_sim::clusters::{self, ACTS, ClusterWorld, Report};
use shardwright_sim::sweep::Sweep;

/// Worlds of the sweep.
const SEEDS: u64 = 1_000;

#[test]
fn cluster_worlds_violate_no_oracle_and_meet_every_fault() {
    let sweep = Sweep::<ClusterWorld>::run(0..SEEDS, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.calm_seeds * 10 > SEEDS && sweep.tally.drains > 0, "{table}");
    assert!(sweep.tally.deletions > 0 && sweep.tally.evictions > 0, "{table}");
}

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn same_seed_gives_the_same_cluster_trace() {
    for seed in 0..10 {
        let one = clusters::live(seed, ACTS, true);
        let other = std::thread::spawn(move || clusters::live(seed, ACTS, true)).join().unwrap();
        assert!(bytes(&one).len() > 10_000, "the trace of seed {seed} is short");
        assert!(bytes(&one) == bytes(&other), "seed {seed} gives two traces");
        assert_eq!(one.tally, other.tally);
    }
}
