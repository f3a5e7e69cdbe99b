//! What is shown of runs that are taken away meanwhile, or of which something is missing.

use shardwright_contracts::CursorUpdate;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, IdempotentOutcome,
    InfraError, RunQueryError, RunTransitionError, ShardFilter,
};
use shardwright_runs::Retention;
use shardwright_store::{Commit, Expect, Key, Store, StoreLimits};

use crate::flaky::{Fate, Flaky, Polite};
use crate::quarantine::scribble;
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

fn is_gone<T: std::fmt::Debug>(told: &Result<T, RunQueryError>) -> bool {
    matches!(told, Err(RunQueryError::RunNotFound(_)))
}

#[test]
fn a_run_that_is_being_taken_away_is_not_there() {
    let mut deaths = 0;
    loop {
        let site = with_an_ended_run();
        let store = Flaky::with_limits(site.store.clone(), FEW_WRITES);
        let engine = site.engine_over(store.clone(), Site::config());
        // The first commit is the mark of its clock, whoever asks.
        site.run(list(&engine));
        store.henceforth(deaths, Fate::HangAfter);
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
    assert!(deaths > 4, "there were to be many commits to die at");
}

#[test]
fn a_run_that_is_taken_away_while_it_is_read_is_shown_whole_or_not_at_all() {
    let (mut whole, mut gone) = (0, 0);
    for seed in 0..200 {
        let site = with_an_ended_run();
        let few = Flaky::with_limits(site.store.clone(), FEW_WRITES);
        let one = site.engine_over(Polite(few), Site::config());
        let other = site.engine_over(Polite(site.store.clone()), Site::config());
        let reading = async {
            let progress = other.get_run_progress(TENANT, RUN).await;
            let listed = other.list_shards(TENANT, RUN, ShardFilter::all()).await;
            (progress, listed)
        };
        let ((), (progress, listed)) = site.race(seed, collect(&one), reading);
        match progress {
            Ok(progress) => assert_eq!(progress.total(), 12, "seed {seed}"),
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

async fn delete(site: &Site, key: Key) {
    let found = site.store.load(std::slice::from_ref(&key)).await.unwrap();
    let at = found.values[0].as_ref().unwrap().revision;
    let commit = Commit::builder().expect(key.clone(), Expect::At(at)).delete(key);
    site.store.commit(commit.build().unwrap()).await.unwrap();
}

/// Works off the run.
async fn finish(engine: &Engine, shards: u64) {
    for id in 0..shards {
        let claimed = engine.claim_next_available(TENANT, RUN, worker(1)).await.unwrap();
        let cursor = CursorUpdate::initial();
        engine.complete(TENANT, &claimed.lease, cursor, op(id)).await.unwrap();
    }
}

#[test]
fn half_a_shard_is_damage_and_no_run_completes_without_it() {
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
fn completing_again_needs_no_look_at_the_shards() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    site.run(start(&engine, 3));
    site.run(finish(&engine, 3));
    site.run(engine.complete_run(TENANT, RUN, op(9))).unwrap();
    site.run(scribble(&site, site.keys.progress(TENANT, shard(1))));
    let commits = store.commits();
    let again = site.run(engine.complete_run(TENANT, RUN, op(9)));
    assert_eq!(again, Ok(IdempotentOutcome::Replayed(())));
    assert_eq!(store.commits(), commits);
}
