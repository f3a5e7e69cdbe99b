//! Names for runs, and what holders tell about their work.

use shardwright_contracts::RunId;
use shardwright_contracts::limits::MAX_JOB_SIZE;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunDirectory, AsyncRunManagement, AsyncWorkEstimates, Job,
    NameRunError, RunName, WorkEstimate,
};
use shardwright_engine::Retention;

use crate::flaky::Fate;
use crate::site::{RUN, Site, TENANT, op, shard, start, worker};

const OTHER: RunId = RunId::from_raw(2);

fn name() -> RunName {
    RunName::new("data-1").unwrap()
}

fn job(description: &str) -> Job {
    Job { name: name(), description: description.as_bytes().into() }
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
        assert_eq!(site.run(other.list_jobs(TENANT)).unwrap(), [(found.unwrap(), expected)]);
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
        assert_eq!(engine.job_of(TENANT, RUN).await, Ok(Some(job("old"))));
        let again = engine.name_run(TENANT, RUN, &job("again"), Some(OTHER)).await;
        assert_eq!(again, Err(NameRunError::RunIdUsed { run: RUN }));
        let length = MAX_JOB_SIZE + 1;
        let large = Job { name: name(), description: vec![0; length].into() };
        let refused = engine.name_run(TENANT, third, &large, Some(OTHER)).await;
        assert_eq!(refused, Err(NameRunError::JobTooLarge { length }));
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
        assert_eq!(site.run(engine.job_of(TENANT, RUN)), Ok(Some(job("one"))));
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
            assert_eq!(engine.job_of(TENANT, RUN).await, Ok(None));
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
