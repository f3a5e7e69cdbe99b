//! The protocol holds in every world within small bounds, and nothing about that is empty.

use shardwright_specs::{Bounds, Model, Pinned, Search, Sight, Sights};

/// Of the pinned states, those of a run that has not ended.
const RUNNING: [(Bounds, u64); 2] = [(Bounds::SMALL, 1_378_882), (Bounds::SPLITS, 216_534)];

#[test]
fn every_rule_holds_in_every_world_and_every_sight_is_seen() {
    let mut seen = Sights::default();
    for (bounds, running) in RUNNING {
        let report = Search::new(Model::new(bounds)).run();
        assert!(report.counterexamples.is_empty(), "{bounds}: {:#?}", report.counterexamples);
        let found = Pinned { states: report.states, depth: report.depth };
        assert_eq!((Some(found), report.running), (bounds.pinned(), running));
        seen.extend(report.sights);
    }
    let missing: Vec<_> = Sight::ALL.iter().filter(|sight| !seen.contains(**sight)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

#[test]
fn the_number_of_worlds_does_not_depend_on_threads() {
    let bounds = Bounds { shards: 2, ..Bounds::TINY };
    let explore = |threads| {
        let report = Search::new(Model::new(bounds)).threads(threads).run();
        (report.states, report.running, report.depth)
    };
    assert_eq!(explore(1), explore(3));
}
