//! Shows that the worlds around the stored engine can fail: every bug planted in the engine is
//! caught, and every oracle of theirs catches one. In a process of its own, because a planted bug
//! is active in all of it.

use std::collections::BTreeSet;

use shardwright_sim::planted::{hunt_in_engine, hunt_in_engine_with};
use shardwright_sim::stored::{self, ACTS, StoredSweep};

#[test]
fn every_bug_planted_in_the_engine_is_caught_and_every_oracle_catches_one() {
    let mut caught_by: BTreeSet<&str> = BTreeSet::new();
    for hunted in hunt_in_engine() {
        let catch = hunted.catch;
        let catch = catch.unwrap_or_else(|| panic!("{} got away", hunted.name));
        caught_by.extend(catch.oracles);
    }
    for oracle in stored::ALL {
        let catches = caught_by.contains(oracle.name) || hunt_in_engine_with(oracle.name).is_some();
        assert!(catches, "nothing was caught by: {}", oracle.sentence);
    }
    // And with nothing planted, the same worlds are sound.
    assert!(StoredSweep::run(0..40, ACTS).failures.is_empty());
}
