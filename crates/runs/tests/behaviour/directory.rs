//! Names of runs, and estimates of holders.

use std::future::Future;
use std::sync::Arc;

use shardwright_contracts::RunId;
use shardwright_contracts::limits::MAX_RUN_DESCRIPTION_SIZE;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunDirectory, AsyncRunManagement, AsyncWorkEstimates,
    InfraError, NameRunError, RunLabel, RunName, WorkEstimate,
};
use shardwright_runs::Retention;
use shardwright_store::memory::{Before, HookedCall, Hooks};
use shardwright_store::{Fault, FaultKind, Key};

use crate::flaky::Reaction;
use crate::quarantine::corrupt;
use crate::site::{RUN, Site, TENANT, op, shard, start, worker};

const OTHER: RunId = RunId::from_raw(2);

fn name() -> RunName {
    RunName::new("data-1").unwrap()
}

fn label(description: &str) -> RunLabel {
    RunLabel { name: name(), description: description.as_bytes().into() }
}

#[test]
fn racing_names_agree_on_one_run() {
    for seed in 0..50 {
        let site = Site::new();
        let (one, other) = (site.engine(), site.engine());
        let (one_label, other_label) = (label("one"), label("other"));
        let (first, second) = site.race(
            seed,
            one.name_run(TENANT, RUN, &one_label, None),
            other.name_run(TENANT, OTHER, &other_label, None),
        );
        let found = site.run(one.find_run(TENANT, name())).unwrap();
        assert_eq!((first.ok(), second.ok()), (found, found));
        let expected = if found == Some(RUN) { one_label } else { other_label };
        assert_eq!(site.run(other.list_labels(TENANT)).unwrap(), [(found.unwrap(), expected)]);
    }
}

#[test]
fn name_moves_only_if_its_current_run_is_given() {
    let site = Site::new();
    let engine = site.engine();
    site.run(async {
        engine.name_run(TENANT, RUN, &label("old"), None).await.unwrap();
        let third = RunId::from_raw(3);
        assert_eq!(engine.name_run(TENANT, OTHER, &label("new"), None).await, Ok(RUN));
        assert_eq!(engine.name_run(TENANT, OTHER, &label("new"), Some(third)).await, Ok(RUN));
        assert_eq!(engine.name_run(TENANT, OTHER, &label("new"), Some(RUN)).await, Ok(OTHER));
        assert_eq!(engine.find_run(TENANT, name()).await, Ok(Some(OTHER)));
        assert_eq!(engine.label_of(TENANT, RUN).await, Ok(Some(label("old"))));
        let again = engine.name_run(TENANT, RUN, &label("again"), Some(OTHER)).await;
        assert_eq!(again, Err(NameRunError::RunIdUsed { run: RUN }));
        let length = MAX_RUN_DESCRIPTION_SIZE + 1;
        let large = RunLabel { name: name(), description: vec![0; length].into() };
        let refused = engine.name_run(TENANT, third, &large, Some(OTHER)).await;
        assert_eq!(refused, Err(NameRunError::LabelTooLarge { length }));
        assert_eq!(engine.find_run(TENANT, name()).await, Ok(Some(OTHER)));
    });
}

#[test]
fn lost_answer_of_naming_is_resolved() {
    for reaction in [Reaction::Late, Reaction::LoseAnswer] {
        let site = Site::new();
        let (engine, store) = site.flaky_engine();
        store.next([reaction]);
        let named = site.run(engine.name_run(TENANT, RUN, &label("one"), None));
        assert_eq!(named, Ok(RUN));
        assert_eq!(site.run(engine.label_of(TENANT, RUN)), Ok(Some(label("one"))));
    }
}

#[test]
fn unresolved_naming_is_unknown() {
    for reads_fail in [true, false] {
        let site = Site::new();
        let (engine, store) = site.flaky_engine();
        store.next([Reaction::Late, Reaction::Refuse]);
        let unread = store.clone();
        store.on_fault(move || unread.refuse_reads(reads_fail));
        let named = site.run(engine.name_run(TENANT, RUN, &label("one"), None));
        let is_unknown =
            matches!(named, Err(NameRunError::BackendError(InfraError::Unknown { .. })));
        assert!(is_unknown, "{named:?}");
        assert_eq!(site.run(store.deliver_late()), 1, "the commit could not be applied later");
    }
}

#[test]
fn name_is_deleted_with_a_run_whose_label_is_unreadable() {
    for is_damaged in [true, false] {
        let site = Site::new();
        let purpose = site.keys.label(TENANT, RUN);
        let unread = Arc::new(Unread(purpose.clone()));
        let at_once = Retention { ended_ms: 1, initializing_ms: 1 };
        let engine = site.engine();
        site.run(async {
            engine.name_run(TENANT, RUN, &label("one"), None).await.unwrap();
            start(&engine, 1).await;
            engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
        });
        site.world.advance(2_000);
        if is_damaged {
            site.run(corrupt(&site, purpose));
        } else {
            let store = site.store.client(Arc::clone(&unread));
            let interrupted = site.engine_over(store, Site::config());
            let outcome = site.run(interrupted.collect_into(at_once, &mut Vec::new()));
            assert!(matches!(outcome, Err(InfraError::NotApplied { .. })), "{outcome:?}");
        }
        site.run(engine.collect_into(at_once, &mut Vec::new())).unwrap();
        assert_eq!(site.run(engine.find_run(TENANT, name())), Ok(None));
        assert!(site.key_names().iter().all(|key| key.contains("/meta/")));
    }
}

/// Reads of one key fail.
struct Unread(Key);

impl Hooks for Unread {
    fn before(&self, call: HookedCall<'_>) -> impl Future<Output = Before> + Send {
        std::future::ready(match call {
            HookedCall::Load(keys) if keys.contains(&self.0) => {
                Before::Refuse(Fault::new(FaultKind::Unreachable, "the key cannot be read"))
            }
            _ => Before::Go,
        })
    }
}

#[test]
fn deleted_run_loses_its_name_unless_it_moved() {
    for is_replaced in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(async {
            engine.name_run(TENANT, RUN, &label("one"), None).await.unwrap();
            start(&engine, 3).await;
            let held = engine.acquire_and_restore(TENANT, shard(1), worker(1)).await.unwrap();
            let estimate = WorkEstimate::default();
            engine.publish_estimate(TENANT, &held.lease, estimate).await.unwrap();
            engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
            if is_replaced {
                engine.name_run(TENANT, OTHER, &label("two"), Some(RUN)).await.unwrap();
            }
            site.world.advance(10);
            let at_once = Retention { ended_ms: 1, initializing_ms: 1 };
            engine.collect_into(at_once, &mut Vec::new()).await.unwrap();
            let expected = is_replaced.then_some(OTHER);
            assert_eq!(engine.find_run(TENANT, name()).await, Ok(expected));
            assert_eq!(engine.label_of(TENANT, RUN).await, Ok(None));
            assert_eq!(engine.list_estimates(TENANT, RUN).await, Ok(Vec::new()));
        });
        site.audit();
    }
}

#[test]
fn estimate_is_visible_until_its_holder_ends() {
    let site = Site::new();
    let (engine, other) = (site.engine(), site.engine());
    site.run(async {
        start(&engine, 3).await;
        let held = engine.acquire_and_restore(TENANT, shard(1), worker(1)).await.unwrap();
        for left_ms in [900, 400] {
            let estimate = WorkEstimate { left_ms: Some(left_ms), ..WorkEstimate::default() };
            engine.publish_estimate(TENANT, &held.lease, estimate).await.unwrap();
        }
        let found = other.list_estimates(TENANT, RUN).await.unwrap();
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.shard, found.fence), (held.lease.key().shard, held.lease.fence()));
        assert_eq!((found.holder, found.estimate.left_ms), (worker(1), Some(400)));
        engine.close().await.unwrap();
        assert_eq!(other.list_estimates(TENANT, RUN).await, Ok(Vec::new()));
    });
    site.audit();
}
