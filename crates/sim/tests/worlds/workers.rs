//! The real worker loop in simulated worlds: no oracle is violated, every fault occurs, and the
//! same seed gives the same trace.

use shardwright_sim::sweep::Sweep;
use shardwright_sim::workers::{self, ACTS, Report, WorkerWorld};

/// Worlds of the sweep.
const SEEDS: u64 = 500;

#[test]
fn worker_worlds_violate_no_oracle_and_meet_every_fault() {
    let sweep = Sweep::<WorkerWorld>::run(0..SEEDS, ACTS);
    let (complaints, table) = (sweep.complaints(), sweep.table());
    assert!(complaints.is_empty(), "{}\n\n{table}", complaints.join("\n\n"));
    assert!(sweep.tally.calm_seeds * 10 > SEEDS && sweep.tally.lopsided_seeds > 0, "{table}");
}

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn same_seed_gives_the_same_worker_trace() {
    for seed in 0..20 {
        let one = workers::live(seed, ACTS, true);
        let other = std::thread::spawn(move || workers::live(seed, ACTS, true)).join().unwrap();
        assert!(bytes(&one).len() > 2_000, "the trace of seed {seed} is short");
        assert!(bytes(&one) == bytes(&other), "seed {seed} gives two traces");
        assert_eq!(one.tally, other.tally);
    }
}
