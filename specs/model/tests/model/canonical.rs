//! Equal worlds have equal futures.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use shardwright_specs::{Bounds, Model, World};

/// One world in this many is compared with all worlds of the same form.
const ONE_IN: u64 = 251;

fn successors(model: &Model, world: &World) -> Vec<World> {
    let mut actions = Vec::new();
    model.actions(world, &mut actions);
    actions.into_iter().filter_map(|action| model.step(world, action).after).collect()
}

fn futures(model: &Model, world: &World) -> BTreeSet<u64> {
    successors(model, world).iter().map(World::fingerprint).collect()
}

/// Steps worlds of the same form that were reached by different paths. Returns their number.
fn compare_equal_worlds(model: &Model) -> usize {
    let mut visited = HashSet::new();
    let mut samples: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    let mut pending: Vec<World> = model.start().into_iter().collect();
    let mut compared = 0;
    while let Some(world) = pending.pop() {
        for after in successors(model, &world) {
            let fingerprint = after.fingerprint();
            let is_new = visited.insert(fingerprint);
            if fingerprint % ONE_IN == 0 {
                let future = futures(model, &after);
                let first = samples.entry(fingerprint).or_insert_with(|| future.clone());
                assert_eq!(*first, future, "different futures of {after:#?}");
                compared += usize::from(!is_new);
            }
            if is_new {
                pending.push(after);
            }
        }
    }
    compared
}

#[test]
fn equal_worlds_have_equal_futures() {
    let bounds = Bounds { misuse: true, ..Bounds::TINY };
    assert!(compare_equal_worlds(&Model::new(bounds)) > 3_000);
}

#[test]
fn equal_worlds_have_equal_futures_after_repeated_splits() {
    assert!(compare_equal_worlds(&Model::new(Bounds::SPLITS)) > 3_000);
}
