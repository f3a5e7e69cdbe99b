//! The rules can fail: without a check, the rule that depends on it is broken.

use shardwright_specs::{Bounds, Defect, Model, Rule, Search};

#[test]
fn every_missing_check_breaks_its_rule() {
    for defect in Defect::ALL {
        let model = Model::with_defect(defect.bounds(), defect);
        let report = Search::new(model).run();
        let found = report.counterexample(defect.breaks());
        assert!(found.is_some(), "{defect:?} breaks {:#?}", report.counterexamples);
    }
}

#[test]
fn every_rule_is_broken_by_some_missing_check() {
    for rule in Rule::ALL {
        assert!(Defect::ALL.iter().any(|defect| defect.breaks() == *rule), "{rule:?}");
    }
}

#[test]
fn counterexample_can_be_replayed() {
    let model = Model::with_defect(Bounds::TINY, Defect::ExpiryOffByOne);
    let report = Search::new(model).run();
    let found = report.counterexample(Rule::ZombiesRefused).unwrap();
    let mut world = model.start().unwrap();
    let (last, before) = found.actions.split_last().unwrap();
    for action in before {
        world = model.step(&world, *action).after.unwrap();
    }
    assert!(model.step(&world, *last).broken.contains(found.rule));
    // Acquire, let the lease expire, write.
    assert_eq!(found.actions.len(), 3, "{:#?}", found.actions);
}
