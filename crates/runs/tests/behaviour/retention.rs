//! Periodic deletion of old runs.

use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunManagement, RunQueryError};
use shardwright_runs::{EngineConfig, Retention};

use crate::flaky::Reaction;
use crate::site::{RUN, Site, TENANT, op, run_config, start, start_run};

const KEPT: Retention = Retention { ended_ms: 5_000, initializing_ms: 20_000 };
const WAITING: RunId = RunId::from_raw(2);
const ACTIVE: RunId = RunId::from_raw(3);

fn config(retention: Retention) -> EngineConfig {
    let collection_interval = Duration::from_secs(2);
    EngineConfig { retention, collection_interval, ..Site::config() }
}

#[test]
fn runs_past_their_retention_are_deleted() {
    for (retention, is_kept) in [(KEPT, false), (Retention::FOREVER, true)] {
        let site = Site::new();
        let engine = site.engine_over(site.store.clone(), config(retention));
        site.run(async {
            start(&engine, 3).await;
            engine.create_run(TENANT, WAITING, run_config()).await.unwrap();
            start_run(&engine, ACTIVE, 2).await;
            engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
        });
        let is_there = |run| match site.run(engine.get_run(TENANT, run)) {
            Ok(_) => true,
            Err(RunQueryError::RunNotFound(_)) => false,
            Err(error) => panic!("{error}"),
        };
        site.world.advance(4_000);
        site.world.run_tasks();
        assert!(is_there(RUN) && is_there(WAITING) && is_there(ACTIVE));
        for _ in 0..4 {
            site.world.advance(2_500);
            site.world.run_tasks();
        }
        assert_eq!((is_there(RUN), is_there(WAITING), is_there(ACTIVE)), (is_kept, true, true));
        site.world.advance(20_000);
        site.world.run_tasks();
        assert_eq!((is_there(WAITING), is_there(ACTIVE)), (is_kept, true));
        site.audit();
    }
}

#[test]
fn deleting_stale_initializing_runs_keeps_others() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 3));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    site.run(engine.create_run(TENANT, WAITING, run_config())).unwrap();
    site.world.advance(10);
    store.always_after(0, Reaction::HangAfter);
    let at_once = Retention { ended_ms: 1, initializing_ms: u64::MAX };
    let mut collected = Vec::new();
    assert!(site.world.run_or_drop(engine.collect_into(at_once, &mut collected)).is_none());
    let next = site.engine();
    site.world.advance(10_000);
    site.run(next.gc_stale_initializing_runs_into(5, &mut collected)).unwrap();
    let collected: Vec<RunId> = collected.iter().map(|address| address.run).collect();
    assert_eq!(collected, [WAITING]);
}

/// Extreme intervals neither panic nor loop.
#[test]
fn extreme_collection_intervals_are_safe() {
    for collection_interval in [Duration::ZERO, Duration::MAX] {
        let site = Site::new();
        let config = EngineConfig { collection_interval, ..config(KEPT) };
        let engine = site.engine_over(site.store.clone(), config);
        site.run(start(&engine, 1));
        site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
        site.world.run_tasks();
        site.world.advance(10_000);
        site.world.run_tasks();
        let is_gone = site.run(engine.get_run(TENANT, RUN)).is_err();
        assert_eq!(is_gone, collection_interval.is_zero());
    }
}
