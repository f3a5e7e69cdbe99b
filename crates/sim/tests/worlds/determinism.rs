//! The same seed gives the same bytes, wherever and whenever it is lived through.

use shardwright_sim::memory::{self, Report};

fn bytes(report: &Report) -> Vec<u8> {
    report.trace.lines().flat_map(|line| line.bytes().chain([b'\n'])).collect()
}

#[test]
fn the_same_seed_gives_byte_identical_traces() {
    for seed in 0..20 {
        let one = memory::live(seed, 2_000, true);
        let other = std::thread::spawn(move || memory::live(seed, 2_000, true)).join().unwrap();
        assert!(bytes(&one).len() > 20_000, "seed {seed} tells a story");
        assert!(bytes(&one) == bytes(&other), "seed {seed} tells two stories");
        assert_eq!(one.tally, other.tally);
    }
}

#[test]
fn keeping_less_of_the_trace_changes_nothing_that_happens() {
    let (all, tail) = (memory::live(3, 2_000, true), memory::live(3, 2_000, false));
    assert_eq!(all.trace.digest(), tail.trace.digest());
    assert_eq!(all.tally, tail.tally);
    assert!(tail.trace.lines().count() < all.trace.lines().count());
}

#[test]
fn different_seeds_live_through_different_worlds() {
    let digest = |seed| memory::live(seed, 500, false).trace.digest();
    assert_ne!(digest(1), digest(2));
}
