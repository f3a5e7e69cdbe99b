//! The same seed gives the same trace, in any thread and at any time.

use shardwright_sim::memory::{self, Report};

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let one = memory::live(seed, 2_000, true);
        let other = std::thread::spawn(move || memory::live(seed, 2_000, true)).join().unwrap();
        assert!(bytes(&one).len() > 20_000, "the trace of seed {seed} is short");
        assert!(bytes(&one) == bytes(&other), "seed {seed} gives two traces");
        assert_eq!(one.tally, other.tally);
    }
}

#[test]
fn short_trace_has_the_same_digest_and_counts() {
    let (all, tail) = (memory::live(3, 2_000, true), memory::live(3, 2_000, false));
    assert_eq!(all.trace.digest(), tail.trace.digest());
    assert_eq!(all.tally, tail.tally);
    assert!(tail.trace.lines().count() < all.trace.lines().count());
}

#[test]
fn different_seeds_give_different_traces() {
    let digest = |seed| memory::live(seed, 500, false).trace.digest();
    assert_ne!(digest(1), digest(2));
}
