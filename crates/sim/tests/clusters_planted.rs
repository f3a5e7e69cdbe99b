//! Shows that the worlds around clusters can fail: every bug planted in nodes, gates and the
//! cluster driver is caught, and every oracle catches one. In a process of its own, because a
//! planted bug is active in all of it.

use shardwright_sim::clusters::{ACTS, ClusterSweep};
use shardwright_sim::planted::hunt_in_clusters;

#[test]
fn every_bug_planted_in_clusters_is_caught() {
    let hunted = hunt_in_clusters();
    let escaped: Vec<_> = hunted.iter().filter(|hunted| hunted.catch.is_none()).collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    assert!(hunted.len() >= 15);
    // And with nothing planted, the same worlds are sound.
    assert!(ClusterSweep::run(0..20, ACTS).failures.is_empty());
}
