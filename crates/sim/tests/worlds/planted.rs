//! Shows that every kind of world can fail: each planted bug is caught, and each oracle catches
//! one. A bug is tried on its recorded seed first, on all cores.

use std::collections::BTreeSet;

use shardwright_sim::clusters::{self, ClusterWorld};
use shardwright_sim::memory::{self, MemoryWorld};
use shardwright_sim::oracle::{self, Oracle};
use shardwright_sim::planted::clusters::ClusterBug;
use shardwright_sim::planted::protocol::ProtocolBug;
use shardwright_sim::planted::stored::StoredBug;
use shardwright_sim::planted::workers::WorkerBug;
use shardwright_sim::planted::{Bug, find_all, find_with};
use shardwright_sim::stored::{self, StoredWorld};
use shardwright_sim::sweep::Sweep;
use shardwright_sim::workers::{self, WorkerWorld};

fn every_bug_is_caught_and_catches_cover<B: Bug>(oracles: &[&Oracle]) {
    let mut caught_by: BTreeSet<&str> = BTreeSet::new();
    let mut escaped = Vec::new();
    for hunted in find_all::<B>() {
        match hunted.detection {
            Some(detection) => caught_by.extend(detection.oracles),
            None => escaped.push(hunted.defect.name),
        }
    }
    assert!(escaped.is_empty(), "escaped: {escaped:?}");
    for oracle in oracles {
        let catches = caught_by.contains(oracle.name) || find_with::<B>(oracle.name).is_some();
        assert!(catches, "nothing was caught by: {}", oracle.sentence);
    }
}

#[test]
fn every_bug_planted_in_the_protocol_is_caught_and_every_oracle_catches_one() {
    every_bug_is_caught_and_catches_cover::<ProtocolBug>(oracle::ALL);
    // With nothing planted, the same worlds are sound.
    assert!(Sweep::<MemoryWorld>::run(0..40, memory::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_in_the_engine_is_caught_and_every_oracle_catches_one() {
    every_bug_is_caught_and_catches_cover::<StoredBug>(stored::ALL);
    assert!(Sweep::<StoredWorld>::run(0..40, stored::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_in_clusters_is_caught_and_every_oracle_catches_one() {
    every_bug_is_caught_and_catches_cover::<ClusterBug>(clusters::oracle::ALL);
    assert!(Sweep::<ClusterWorld>::run(0..20, clusters::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_around_workers_is_caught_and_every_oracle_catches_one() {
    every_bug_is_caught_and_catches_cover::<WorkerBug>(workers::oracle::ALL);
    assert!(Sweep::<WorkerWorld>::run(0..20, workers::ACTS).failures.is_empty());
}

/// The rows of one kind of world: names are unique, and each names an oracle that there is.
fn table_is_sound<B: Bug>(oracles: &[&Oracle]) {
    let mut names = BTreeSet::new();
    for bug in B::ALL {
        let defect = bug.defect();
        assert!(names.insert(defect.name), "{} is there twice", defect.name);
        let mut known = oracles.iter().chain(oracle::ALL);
        let is_known = known.any(|oracle| oracle.name == defect.caught_by);
        assert!(is_known, "{} is caught by {:?}", defect.name, defect.caught_by);
    }
    for oracle in oracles {
        let is_named = B::ALL.iter().any(|bug| bug.defect().caught_by == oracle.name);
        assert!(is_named, "no row names: {}", oracle.name);
    }
}

#[test]
fn each_row_of_the_tables_names_an_oracle_and_each_oracle_has_a_row() {
    table_is_sound::<ProtocolBug>(oracle::ALL);
    table_is_sound::<StoredBug>(stored::ALL);
    table_is_sound::<ClusterBug>(clusters::oracle::ALL);
    table_is_sound::<WorkerBug>(workers::oracle::ALL);
}
