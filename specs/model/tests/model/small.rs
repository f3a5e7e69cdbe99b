//! The protocol holds in every world within small bounds, and every situation occurs.

use shardwright_specs::{Bounds, Model, Pinned, Search, Situation, Situations};

/// The number of pinned states whose run has not ended.
const RUNNING: [(Bounds, u64); 2] = [(Bounds::SMALL, 1_378_882), (Bounds::SPLITS, 216_534)];

#[test]
fn rules_hold_and_every_situation_occurs() {
    let mut seen = Situations::default();
    for (bounds, running) in RUNNING {
        let report = Search::new(Model::new(bounds)).run();
        assert!(report.counterexamples.is_empty(), "{bounds}: {:#?}", report.counterexamples);
        let found = Pinned { states: report.states, depth: report.depth };
        assert_eq!((Some(found), report.running), (bounds.pinned(), running));
        seen.extend(report.situations);
    }
    let missing: Vec<_> =
        Situation::ALL.iter().filter(|situation| !seen.contains(**situation)).collect();
    assert!(missing.is_empty(), "never occurred: {missing:?}");
}

#[test]
fn state_count_is_independent_of_threads() {
    let bounds = Bounds { shards: 2, ..Bounds::TINY };
    let explore = |threads| {
        let report = Search::new(Model::new(bounds)).threads(threads).run();
        (report.states, report.running, report.depth)
    };
    assert_eq!(explore(1), explore(3));
}
