//! Reads of runs that are being deleted or incomplete.

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, IdempotentOutcome,
    InfraError, RunQueryError, RunTransitionError, ShardFilter,
};
use shardwright_runs::Retention;
use shardwright_store::StoreLimits;

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::quarantine::{corrupt, delete};
use crate::site::{Engine, RUN, Site, TENANT, list, op, shard, start, worker};

const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: 1 };
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };

async fn collect(engine: &Engine) {
    engine.collect_into(AT_ONCE, &mut Vec::new()).await.unwrap();
}

fn with_an_ended_run() -> Site {
    let site = Site::new();
    let engine = site.engine();
    site.run(start(&engine, 12));
    site.run(engine.cancel_run(TENANT, RUN, op(1))).unwrap();
    site.world.advance(10);
    site
}

fn is_gone<T: std::fmt::Debug>(found: &Result<T, RunQueryError>) -> bool {
    matches!(found, Err(RunQueryError::RunNotFound(_)))
}

#[test]
fn run_being_deleted_is_not_found() {
    let mut deaths = 0;
    loop {
        let site = with_an_ended_run();
        let store = FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
        let engine = site.engine_over(store.clone(), Site::config());
        // The first commit of a coordinator is the clock's mark.
        site.run(list(&engine));
        store.always_after(deaths, Reaction::HangAfter);
        if site.world.run_or_drop(collect(&engine)).is_some() {
            break;
        }
        let other = site.engine();
        let record = site.run(other.get_run(TENANT, RUN));
        assert!(is_gone(&record), "at commit {deaths}: {record:?}");
        let progress = site.run(other.get_run_progress(TENANT, RUN));
        assert!(is_gone(&progress), "at commit {deaths}: {progress:?}");
        let listed = site.run(other.list_shards(TENANT, RUN, ShardFilter::all()));
        assert!(is_gone(&listed), "at commit {deaths}: {listed:?}");
        let inspected = site.run(other.inspect_shards(TENANT, RUN));
        assert!(is_gone(&inspected), "at commit {deaths}: {inspected:?}");
        deaths += 1;
    }
    assert!(deaths > 4, "too few commits: {deaths}");
}

#[test]
fn run_deleted_during_a_read_is_whole_or_not_found() {
    let (mut whole, mut gone) = (0, 0);
    for seed in 0..200 {
        let site = with_an_ended_run();
        let few = FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
        let one = site.engine_over(YieldingStore(few), Site::config());
        let other = site.engine_over(YieldingStore(site.store.clone()), Site::config());
        let reading = async {
            let progress = other.get_run_progress(TENANT, RUN).await;
            let listed = other.list_shards(TENANT, RUN, ShardFilter::all()).await;
            (progress, listed)
        };
        let ((), (progress, listed)) = site.race(seed, collect(&one), reading);
        match progress {
            Ok(progress) => {
                whole += 1;
                assert_eq!(progress.total(), 12, "seed {seed}");
            }
            Err(error) => assert!(matches!(error, RunQueryError::RunNotFound(_)), "{error:?}"),
        }
        match listed {
            Ok(listed) => {
                whole += 1;
                assert_eq!(listed.len(), 12, "seed {seed}");
            }
            Err(error) => {
                gone += 1;
                assert!(matches!(error, RunQueryError::RunNotFound(_)), "seed {seed}: {error:?}");
            }
        }
    }
    assert!(whole > 5 && gone > 5, "{whole} whole, {gone} gone");
}

/// Completes the shards of the run.
async fn finish(engine: &Engine, shards: u64) {
    for id in 0..shards {
        let claimed = engine.claim_next_available(TENANT, RUN, worker(1)).await.unwrap();
        let cursor = CursorUpdate::initial();
        engine.complete(TENANT, &claimed.lease, cursor, op(id)).await.unwrap();
    }
}

#[test]
fn shard_without_progress_is_reported_as_damage() {
    for last in [0, 2] {
        let site = Site::new();
        let engine = site.engine();
        site.run(start(&engine, 3));
        site.run(finish(&engine, 3));
        site.run(delete(&site, site.keys.progress(TENANT, shard(last))));
        let completed = site.run(engine.complete_run(TENANT, RUN, op(9)));
        assert!(
            matches!(completed, Err(RunTransitionError::BackendError(InfraError::Corrupt { .. }))),
            "{completed:?}"
        );
        let listed = site.run(engine.list_shards(TENANT, RUN, ShardFilter::all()));
        assert!(matches!(listed, Err(RunQueryError::BackendError(InfraError::Corrupt { .. }))));
    }
}

#[test]
fn replayed_completion_reads_no_shards() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 3));
    site.run(finish(&engine, 3));
    site.run(engine.complete_run(TENANT, RUN, op(9))).unwrap();
    site.run(corrupt(&site, site.keys.progress(TENANT, shard(1))));
    let commits = store.commits();
    let again = site.run(engine.complete_run(TENANT, RUN, op(9)));
    assert_eq!(again, Ok(IdempotentOutcome::Replayed(())));
    assert_eq!(store.commits(), commits);
}
