//! Every kind of world can fail: each planted bug is detected by the oracle that its row names, and
//! each oracle has a row. Bugs are tried on all cores, each on its recorded seed first.

use std::collections::BTreeSet;

use shardwright_sim::clusters::{self, ClusterWorld};
use shardwright_sim::memory::{self, MemoryWorld};
use shardwright_sim::oracle::{self, Oracle};
use shardwright_sim::planted::clusters::ClusterBug;
use shardwright_sim::planted::protocol::ProtocolBug;
use shardwright_sim::planted::stored::StoredBug;
use shardwright_sim::planted::workers::WorkerBug;
use shardwright_sim::planted::{Bug, Defect, find_all};
use shardwright_sim::stored::{self, StoredWorld};
use shardwright_sim::sweep::Sweep;
use shardwright_sim::workers::{self, WorkerWorld};

fn assert_all_detected<B: Bug>() {
    let escaped: Vec<_> = find_all::<B>().into_iter().filter(|it| it.seed.is_none()).collect();
    let escaped: Vec<_> = escaped.iter().map(|it| (it.defect.name, it.defect.caught_by)).collect();
    assert!(escaped.is_empty(), "escaped the oracle of its row: {escaped:?}");
}

#[test]
fn every_bug_planted_in_the_protocol_is_detected() {
    assert_all_detected::<ProtocolBug>();
    // Without a planted bug, the same worlds violate no oracle.
    assert!(Sweep::<MemoryWorld>::run(0..40, memory::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_in_the_engine_is_detected() {
    assert_all_detected::<StoredBug>();
    assert!(Sweep::<StoredWorld>::run(0..40, stored::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_in_clusters_is_detected() {
    assert_all_detected::<ClusterBug>();
    assert!(Sweep::<ClusterWorld>::run(0..20, clusters::ACTS).failures.is_empty());
}

#[test]
fn every_bug_planted_around_workers_is_detected() {
    assert_all_detected::<WorkerBug>();
    assert!(Sweep::<WorkerWorld>::run(0..20, workers::ACTS).failures.is_empty());
}

/// Each row has its own name and names a known oracle, and each oracle has a row.
fn assert_sound_table<B: Bug>(oracles: &[&Oracle]) {
    let mut names = BTreeSet::new();
    for bug in B::ALL {
        let defect = bug.defect();
        assert!(names.insert(defect.name), "two rows are named {}", defect.name);
        let mut known = oracles.iter().chain(oracle::ALL);
        let is_known = known.any(|oracle| oracle.name == defect.caught_by);
        assert!(is_known, "{} names an unknown oracle: {:?}", defect.name, defect.caught_by);
    }
    for oracle in oracles {
        let is_named = B::ALL.iter().any(|bug| bug.defect().caught_by == oracle.name);
        assert!(is_named, "no row names the oracle {:?}", oracle.name);
    }
}

/// The oracles that only changed output has tested.
fn tested_by_output_alone() -> BTreeSet<&'static str> {
    fn defects<B: Bug>() -> impl Iterator<Item = Defect> {
        B::ALL.iter().map(|bug| bug.defect())
    }
    let all = || {
        let runs = defects::<ProtocolBug>().chain(defects::<StoredBug>());
        runs.chain(defects::<ClusterBug>()).chain(defects::<WorkerBug>())
    };
    let tested: BTreeSet<_> =
        all().filter(|it| !it.seam.is_output()).map(|it| it.caught_by).collect();
    all().map(|it| it.caught_by).filter(|oracle| !tested.contains(oracle)).collect()
}

#[test]
fn only_oracles_of_answers_are_tested_by_output_alone() {
    let expected = ["counters equal a recount", "events", "split requests"];
    assert_eq!(tested_by_output_alone(), BTreeSet::from(expected));
}

#[test]
fn every_row_names_an_oracle_and_every_oracle_has_a_row() {
    assert_sound_table::<ProtocolBug>(oracle::ALL);
    assert_sound_table::<StoredBug>(stored::ALL);
    assert_sound_table::<ClusterBug>(clusters::oracle::ALL);
    assert_sound_table::<WorkerBug>(workers::oracle::ALL);
}
