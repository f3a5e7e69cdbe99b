//! Names for runs, and what holders tell about their work.

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

use crate::flaky::Fate;
use crate::quarantine::scribble;
use crate::site::{RUN, Site, TENANT, op, shard, start, worker};

const OTHER: RunId = RunId::from_raw(2);

fn name() -> RunName {
    RunName::new("data-1").unwrap()
}

fn job(description: &str) -> RunLabel {
    RunLabel { name: name(), description: description.as_bytes().into() }
}

#[test]
fn a_name_points_to_the_run_that_was_first_and_both_askers_hear_the_same() {
    for seed in 0..50 {
        let site = Site::new();
        let (one, other) = (site.engine(), site.engine());
        let (one_job, other_job) = (job("one"), job("other"));
        let (first, second) = site.race(
            seed,
            one.name_run(TENANT, RUN, &one_job, None),
            other.name_run(TENANT, OTHER, &other_job, None),
        );
        let found = site.run(one.find_run(TENANT, name())).unwrap();
        assert_eq!((first.ok(), second.ok()), (found, found));
        let expected = if found == Some(RUN) { one_job } else { other_job };
        assert_eq!(site.run(other.list_labels(TENANT)).unwrap(), [(found.unwrap(), expected)]);
    }
}

#[test]
fn a_name_is_pointed_elsewhere_only_by_who_knows_where_it_points() {
    let site = Site::new();
    let engine = site.engine();
    site.run(async {
        engine.name_run(TENANT, RUN, &job("old"), None).await.unwrap();
        let third = RunId::from_raw(3);
        assert_eq!(engine.name_run(TENANT, OTHER, &job("new"), None).await, Ok(RUN));
        assert_eq!(engine.name_run(TENANT, OTHER, &job("new"), Some(third)).await, Ok(RUN));
        assert_eq!(engine.name_run(TENANT, OTHER, &job("new"), Some(RUN)).await, Ok(OTHER));
        assert_eq!(engine.find_run(TENANT, name()).await, Ok(Some(OTHER)));
        assert_eq!(engine.label_of(TENANT, RUN).await, Ok(Some(job("old"))));
        let again = engine.name_run(TENANT, RUN, &job("again"), Some(OTHER)).await;
        assert_eq!(again, Err(NameRunError::RunIdUsed { run: RUN }));
        let length = MAX_RUN_DESCRIPTION_SIZE + 1;
        let large = RunLabel { name: name(), description: vec![0; length].into() };
        let refused = engine.name_run(TENANT, third, &large, Some(OTHER)).await;
        assert_eq!(refused, Err(NameRunError::LabelTooLarge { length }));
        assert_eq!(engine.find_run(TENANT, name()).await, Ok(Some(OTHER)));
    });
}

#[test]
fn naming_is_found_out_by_looking_when_its_answer_got_lost() {
    for fate in [Fate::Late, Fate::LoseAnswer] {
        let site = Site::new();
        let (engine, store) = site.flaky_engine();
        store.next([fate]);
        let named = site.run(engine.name_run(TENANT, RUN, &job("one"), None));
        assert_eq!(named, Ok(RUN));
        assert_eq!(site.run(engine.label_of(TENANT, RUN)), Ok(Some(job("one"))));
    }
}

#[test]
fn naming_whose_outcome_is_unknown_is_not_told_as_not_done() {
    for reads_fail in [true, false] {
        let site = Site::new();
        let (engine, store) = site.flaky_engine();
        store.next([Fate::Late, Fate::Refuse]);
        let unread = store.clone();
        store.meanwhile(move || unread.refuse_reads(reads_fail));
        let named = site.run(engine.name_run(TENANT, RUN, &job("one"), None));
        let is_unknown =
            matches!(named, Err(NameRunError::BackendError(InfraError::Unknown { .. })));
        assert!(is_unknown, "{named:?}");
        assert_eq!(site.run(store.deliver_late()), 1, "it could still come");
    }
}

#[test]
fn a_name_does_not_outlive_its_run_though_nobody_could_read_what_the_run_was_for() {
    for is_damaged in [true, false] {
        let site = Site::new();
        let purpose = site.keys.purpose(TENANT, RUN);
        let unread = Arc::new(Unread(purpose.clone()));
        let at_once = Retention { ended_ms: 1, initializing_ms: 1 };
        let engine = site.engine();
        site.run(async {
            engine.name_run(TENANT, RUN, &job("one"), None).await.unwrap();
            start(&engine, 1).await;
            engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
        });
        site.world.advance(2_000);
        if is_damaged {
            site.run(scribble(&site, purpose));
        } else {
            let store = site.store.client(Arc::clone(&unread));
            let interrupted = site.engine_over(store, Site::config());
            let told = site.run(interrupted.collect_into(at_once, &mut Vec::new()));
            assert!(matches!(told, Err(InfraError::NotApplied { .. })), "{told:?}");
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
                Before::Refuse(Fault::new(FaultKind::Unreachable, "it says nothing"))
            }
            _ => Before::Go,
        })
    }
}

#[test]
fn a_run_that_is_taken_away_takes_its_name_along_unless_it_points_elsewhere() {
    for is_replaced in [false, true] {
        let site = Site::new();
        let engine = site.engine();
        site.run(async {
            engine.name_run(TENANT, RUN, &job("one"), None).await.unwrap();
            start(&engine, 3).await;
            let held = engine.acquire_and_restore(TENANT, shard(1), worker(1)).await.unwrap();
            let estimate = WorkEstimate::default();
            engine.publish_estimate(TENANT, &held.lease, estimate).await.unwrap();
            engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
            if is_replaced {
                engine.name_run(TENANT, OTHER, &job("two"), Some(RUN)).await.unwrap();
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
fn an_estimate_is_heard_by_others_and_gone_with_its_holder() {
    let site = Site::new();
    let (engine, other) = (site.engine(), site.engine());
    site.run(async {
        start(&engine, 3).await;
        let held = engine.acquire_and_restore(TENANT, shard(1), worker(1)).await.unwrap();
        for left_ms in [900, 400] {
            let estimate = WorkEstimate { left_ms: Some(left_ms), ..WorkEstimate::default() };
            engine.publish_estimate(TENANT, &held.lease, estimate).await.unwrap();
        }
        let heard = other.list_estimates(TENANT, RUN).await.unwrap();
        let [heard] = heard.as_slice() else { panic!("{heard:?}") };
        assert_eq!((heard.shard, heard.fence), (held.lease.key().shard, held.lease.fence()));
        assert_eq!((heard.holder, heard.estimate.left_ms), (worker(1), Some(400)));
        engine.close().await.unwrap();
        assert_eq!(other.list_estimates(TENANT, RUN).await, Ok(Vec::new()));
    });
    site.audit();
}
