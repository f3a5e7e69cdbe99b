//! The protocol holds in every world within small bounds, and nothing about that is empty.

use shardwright_specs::{Bounds, Model, Search, Sight, Sights};

/// A changed number is a changed protocol or a changed model: find out which before you pin it.
const PINNED: [(Bounds, u64, u64, u32); 2] =
    [(Bounds::SMALL, 1_401_812, 1_378_882, 26), (Bounds::SPLITS, 247_783, 216_534, 19)];

#[test]
fn every_rule_holds_in_every_world_and_every_sight_is_seen() {
    let mut seen = Sights::default();
    for (bounds, states, running, depth) in PINNED {
        let report = Search::new(Model::new(bounds)).run();
        assert!(report.counterexamples.is_empty(), "{bounds}: {:#?}", report.counterexamples);
        assert_eq!((report.states, report.running, report.depth), (states, running, depth));
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
