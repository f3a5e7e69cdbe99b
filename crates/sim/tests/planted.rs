//! Shows that the oracles can fail: every bug planted in the protocol is caught, and every oracle
//! catches one. In a process of its own, because a planted bug is active in all of it.

use std::collections::BTreeSet;

use shardwright_sim::oracle;
use shardwright_sim::planted::{hunt_in_protocol, hunt_with};
use shardwright_sim::sweep::{STEPS, Sweep};

#[test]
fn every_planted_bug_is_caught_and_every_oracle_catches_one() {
    let mut caught_by: BTreeSet<&str> = BTreeSet::new();
    for hunted in hunt_in_protocol() {
        let catch = hunted.catch;
        let catch = catch.unwrap_or_else(|| panic!("{} got away", hunted.name));
        caught_by.extend(catch.oracles);
    }
    for oracle in oracle::ALL {
        let catches = caught_by.contains(oracle.name) || hunt_with(oracle.name).is_some();
        assert!(catches, "nothing was caught by: {}", oracle.sentence);
    }
    // And with nothing planted, the same worlds are sound.
    assert!(Sweep::run(0..40, STEPS).failures.is_empty());
}
