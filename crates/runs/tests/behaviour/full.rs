//! A full store can be read, and cleared if it still accepts deletes.

use shardwright_contracts::{CursorUpdate, RunId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, CreateRunError, InfraError, ShardFilter,
};
use shardwright_runs::Retention;

use crate::flaky::Reaction;
use crate::site::{
    LEASE_MS, RUN, Site, TENANT, acquire, list, op, run_config, start, start_run, worker,
};

#[test]
fn full_store_can_be_read_without_a_new_mark() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 3));
    let lease = site.run(acquire(&engine, 0, 1));
    let watermark = site.run(engine.get_run_progress(TENANT, RUN)).unwrap().watermark;
    let cursor = CursorUpdate::at(b"0000005");
    site.run(engine.checkpoint(TENANT, &lease, cursor, op(1))).unwrap();
    store.always_after(0, Reaction::Refuse);
    // Later than the mark allows.
    site.world.advance(LEASE_MS * 2);
    for engine in [&engine, &site.engine_over(store.clone(), Site::config())] {
        let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
        assert_eq!(
            (progress.active, &progress.watermark),
            (3, &watermark),
            "the watermark changed"
        );
        assert_eq!(progress.leased, 1, "the clock passed its mark");
        assert!(site.run(engine.get_run(TENANT, RUN)).is_ok());
        assert_eq!(site.run(list(engine)).len(), 3);
        let found = site.run(engine.collect_claim_candidates(TENANT, RUN, worker(2), 9)).unwrap();
        assert_eq!(found.0.len(), 2);
    }
    store.next([]);
    let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
    assert!(progress.watermark > watermark && progress.leased == 0, "{progress:?}");
}

#[test]
fn full_store_deletes_shards_first_and_the_run_later() {
    const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: 1 };
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    // Another run shares the counters, which therefore must be written.
    site.run(start_run(&engine, RunId::from_raw(2), 2));
    let others = site.key_names();
    let left = || -> Vec<String> {
        site.key_names().into_iter().filter(|key| !others.contains(key)).collect()
    };
    site.run(start(&engine, 40));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    site.world.advance(10);
    // The clock needs a mark to reach the end of the retention.
    site.run(list(&engine));
    store.always_after(0, Reaction::RefusePuts);
    let mut collected = Vec::new();
    let outcome = site.run(engine.collect_into(AT_ONCE, &mut collected));
    assert!(matches!(outcome, Err(InfraError::NotApplied { .. })), "{outcome:?}");
    assert_eq!(collected, []);
    assert!(!left().is_empty(), "the run itself was deleted");
    let is_of_shards = |key: &String| key.contains("/shard/") || key.contains("/view/");
    assert!(!left().iter().any(is_of_shards), "{:?}", left());
    // Reads do not find the rest of the run, and its id is still used.
    let gone = Err(RunNotFound { run: RUN }.into());
    assert_eq!(site.run(engine.get_run(TENANT, RUN)).map(|_| ()), gone);
    let listed = site.run(engine.list_shards(TENANT, RUN, ShardFilter::all()));
    assert_eq!(listed.map(|_| ()), gone);
    store.next([]);
    let again = site.run(engine.create_run(TENANT, RUN, run_config()));
    assert!(matches!(again, Err(CreateRunError::RunAlreadyExists(_))), "{again:?}");
    site.run(engine.collect_into(AT_ONCE, &mut collected)).unwrap();
    assert_eq!(collected.len(), 1);
    assert_eq!(left(), [""; 0]);
    site.audit();
}
