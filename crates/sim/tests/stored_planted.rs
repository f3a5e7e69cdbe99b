//! Shows that the worlds around the stored engine can fail: every bug planted in the engine is
//! caught. In a process of its own, because a planted bug is active in all of it.

use shardwright_sim::planted::hunt_in_engine;
use shardwright_sim::stored::{ACTS, StoredSweep};

#[test]
fn every_bug_planted_in_the_engine_is_caught() {
    let hunted = hunt_in_engine();
    let escaped: Vec<_> = hunted.iter().filter(|hunted| hunted.catch.is_none()).collect();
    assert!(escaped.is_empty(), "{escaped:?}");
    assert!(hunted.len() >= 15);
    // And with nothing planted, the same worlds are sound.
    assert!(StoredSweep::run(0..40, ACTS).failures.is_empty());
}
