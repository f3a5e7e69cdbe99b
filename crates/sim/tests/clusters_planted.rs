//! Shows that the worlds around clusters can fail: every bug planted in nodes, gates and the
//! cluster driver is caught, and every oracle catches one. In a process of its own, because a
//! planted bug is active in all of it.

use std::collections::BTreeSet;

use shardwright_sim::clusters::{ACTS, ClusterSweep, oracle};
use shardwright_sim::planted::{hunt_in_clusters, hunt_in_clusters_with};

#[test]
fn every_bug_planted_in_clusters_is_caught_and_every_oracle_catches_one() {
    let mut caught_by: BTreeSet<&str> = BTreeSet::new();
    for hunted in hunt_in_clusters() {
        let catch = hunted.catch.unwrap_or_else(|| panic!("{} got away", hunted.name));
        caught_by.extend(catch.oracles);
    }
    for oracle in oracle::ALL {
        let catches =
            caught_by.contains(oracle.name) || hunt_in_clusters_with(oracle.name).is_some();
        assert!(catches, "nothing was caught by: {}", oracle.sentence);
    }
    // And with nothing planted, the same worlds are sound.
    assert!(ClusterSweep::run(0..20, ACTS).failures.is_empty());
}
