//! Deleting runs: marked first, then shard by shard, by any process.

use shardwright_contracts::{CursorUpdate, RunId};
use shardwright_coordination::error::reason::RunNotFound;
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, AsyncShardClaiming, ClaimError, InfraError,
};
use shardwright_runs::{Retention, RunAddress};
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::{ScanFrom, Store, StoreLimits};

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::quarantine::corrupt;
use crate::site::{Engine, RUN, Site, TENANT, op, start, start_run, worker};

const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: 1 };
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };

async fn collect(engine: &Engine) -> Vec<RunAddress> {
    let mut collected = Vec::new();
    engine.collect_into(AT_ONCE, &mut collected).await.unwrap();
    collected
}

/// Completes all shards of a run.
async fn finish(engine: &Engine, run: RunId) {
    for id in 0.. {
        match engine.claim_next_available(TENANT, run, worker(1)).await {
            Ok(claimed) => {
                let cursor = CursorUpdate::initial();
                engine.complete(TENANT, &claimed.lease, cursor, op(id)).await.unwrap();
            }
            Err(ClaimError::NoneAvailable(_)) => break,
            Err(error) => panic!("{error}"),
        }
    }
    engine.complete_run(TENANT, run, op(1)).await.unwrap();
}

/// A site with a cancelled run of twelve shards.
fn with_an_ended_run() -> Site {
    let site = Site::new();
    let engine = site.engine();
    site.run(async {
        start(&engine, 12).await;
        engine.acquire_and_restore(TENANT, crate::site::shard(3), worker(1)).await.unwrap();
        engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
    });
    site.world.advance(10);
    site
}

#[test]
fn interrupted_deletion_is_resumed() {
    let expected = {
        let site = with_an_ended_run();
        assert_eq!(site.run(collect(&site.engine())).len(), 1);
        site.key_names()
    };
    assert!(expected.iter().all(|key| key.contains("/meta/")), "{expected:?}");
    for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
        let mut deaths = 0;
        loop {
            let site = with_an_ended_run();
            let store = FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
            let engine: Engine = site.engine_over(store.clone(), Site::config());
            store.always_after(deaths, reaction);
            if site.world.run_or_drop(collect(&engine)).is_some() {
                break;
            }
            let next = site.engine();
            site.run(collect(&next));
            let left = site.key_names();
            assert_eq!(left, expected, "after a death at commit {deaths}");
            deaths += 1;
        }
        assert!(deaths > 4, "too few commits: {deaths}");
    }
}

#[test]
fn unanswered_deletions_are_unknown() {
    let site = with_an_ended_run();
    let (engine, store) = site.flaky_engine();
    // The marks of the clock and of the run are answered. Later commits are not.
    let before = store.commits();
    store.always_after(2, Reaction::Late);
    let outcome = site.run(engine.collect_into(AT_ONCE, &mut Vec::new()));
    assert!(matches!(outcome, Err(InfraError::Unknown { .. })), "{outcome:?}");
    assert!(store.commits() > before + 3, "deletions are tried again");
    // The same if the last attempt is refused: an earlier one may have deleted something.
    store.script([Reaction::Late], Reaction::Refuse);
    let outcome = site.run(engine.collect_into(AT_ONCE, &mut Vec::new()));
    assert!(matches!(outcome, Err(InfraError::Unknown { .. })), "{outcome:?}");
    store.next([]);
    assert_eq!(site.run(collect(&engine)).len(), 1);
    site.audit();
}

#[test]
fn lost_answers_of_deletions_are_resolved_by_reads() {
    let site = with_an_ended_run();
    let (engine, store) = site.flaky_engine();
    store.always_after(2, Reaction::LoseAnswer);
    assert_eq!(site.run(collect(&engine)).len(), 1);
    site.audit();
}

#[test]
fn nothing_is_added_to_a_marked_run() {
    let site = Site::new();
    let (engine, store) = site.flaky_engine();
    let config = crate::site::run_config();
    site.run(engine.create_run(TENANT, RUN, config)).unwrap();
    site.world.advance(10);
    // The process dies right after the marks of the clock and of the run.
    store.always_after(1, Reaction::HangAfter);
    assert!(site.world.run_or_drop(collect(&engine)).is_none());
    let next = site.engine();
    let manifest = crate::site::Manifest::of(2);
    let registered = site.run(next.register_shards(TENANT, RUN, &manifest.inputs(), op(1)));
    assert_eq!(registered, Err(RunNotFound { run: RUN }.into()));
    let cancelled = site.run(next.cancel_run(TENANT, RUN, op(2)));
    assert_eq!(cancelled, Err(RunNotFound { run: RUN }.into()));
    assert_eq!(site.run(collect(&next)).len(), 1);
    site.audit();
}

#[test]
fn active_runs_stay_and_are_listed() {
    let site = with_an_ended_run();
    let engine = site.engine();
    let other = RunId::from_raw(2);
    site.run(start_run(&engine, other, 2));
    site.world.advance(1_000_000);
    assert_eq!(site.run(collect(&engine)), [RunAddress { tenant: TENANT, run: RUN }]);
    let mut active = Vec::new();
    site.run(engine.list_active_runs_into(&mut active)).unwrap();
    assert_eq!(active, [RunAddress { tenant: TENANT, run: other }]);
    site.audit();
}

#[test]
fn only_a_run_that_waits_too_long_for_shards_is_deleted() {
    const WAITING: RunId = RunId::from_raw(2);
    const ACTIVE: RunId = RunId::from_raw(3);
    let site = with_an_ended_run();
    let engine = site.engine();
    let before = site.key_names();
    // A coordinator that has just started may be ahead of the wall clock, and waits for it.
    site.world.advance(10_000);
    site.run(engine.create_run(TENANT, WAITING, crate::site::run_config())).unwrap();
    let collect = || {
        let mut collected = Vec::new();
        site.run(engine.gc_stale_initializing_runs_into(5_000, &mut collected)).unwrap();
        collected
    };
    site.world.advance(4_999);
    assert_eq!(collect(), []);
    assert!(site.run(engine.get_run(TENANT, WAITING)).is_ok());
    site.world.advance(1);
    assert_eq!(collect(), [RunAddress { tenant: TENANT, run: WAITING }]);
    assert_eq!(site.key_names(), before, "other keys were deleted, or some of the run are left");
    // A run with shards is as old, but does not wait.
    site.run(start_run(&engine, ACTIVE, 2));
    site.world.advance(1_000_000);
    assert_eq!(collect(), []);
    site.audit();
}

#[test]
fn collected_runs_leave_no_keys_behind() {
    let site = Site::new();
    let engine = site.engine();
    let mut sizes = Vec::new();
    for round in 0..200 {
        let run = RunId::from_raw(round);
        site.run(async {
            start_run(&engine, run, 5).await;
            finish(&engine, run).await;
            engine.get_run_progress(TENANT, run).await.unwrap();
        });
        site.world.advance(100);
        site.world.run_tasks();
        assert_eq!(site.run(collect(&engine)).len(), 1);
        sizes.push(site.key_names().len());
    }
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    site.audit();
}

#[test]
fn failed_deletion_does_not_stop_others() {
    const OTHER: RunId = RunId::from_raw(2);
    let site = with_an_ended_run();
    let engine = site.engine();
    site.run(async {
        start_run(&engine, OTHER, 2).await;
        finish(&engine, OTHER).await;
        corrupt(&site, site.keys.count(TENANT, RUN)).await;
    });
    // A coordinator that has just started waits for the wall clock.
    site.world.advance(2_000);
    let mut collected = Vec::new();
    let outcome = site.run(engine.collect_into(AT_ONCE, &mut collected));
    assert!(matches!(outcome, Err(InfraError::Corrupt { .. })), "{outcome:?}");
    assert_eq!(collected, [RunAddress { tenant: TENANT, run: OTHER }]);
}

/// A file store keeps few revisions for all scans.
#[test]
fn deleting_a_large_run_does_not_expire_other_scans() {
    let site = Site::new();
    let folder = tempfile::tempdir().unwrap();
    let options = FileOptions { scans_max: 2, ..FileOptions::default() };
    let store = FileStore::open(folder.path(), options).unwrap();
    let engine = site.engine_over(store.clone(), Site::config());
    site.run(async {
        start(&engine, 900).await;
        engine.cancel_run(TENANT, RUN, op(1)).await.unwrap();
    });
    site.world.advance(10);
    let (everything, page) = (site.keys.keyspace().everything(), ScanFrom::first(10));
    let first = site.run(store.scan(&everything, page.clone())).unwrap();
    assert_eq!(site.run(collect(&engine)).len(), 1);
    let second = ScanFrom { after: first.next, ..page };
    let second = site.run(store.scan(&everything, second)).unwrap();
    assert_eq!(second.revision, first.revision);
    let left = site.run(crate::support::audit::key_names(&store, &site.keys));
    assert!(left.iter().all(|key| key.contains("/meta/")), "{left:?}");
}

#[test]
fn run_is_deleted_despite_concurrent_reservations() {
    for seed in 0..50 {
        let site = with_an_ended_run();
        let yielding = || site.engine_over(YieldingStore(site.store.clone()), Site::config());
        let (one, other) = (yielding(), yielding());
        let reserve = async {
            for run in 2..8 {
                start_run(&other, RunId::from_raw(run), 1).await;
            }
        };
        let (collected, ()) = site.race(seed, collect(&one), reserve);
        assert_eq!(collected.len(), 1, "seed {seed}");
        site.audit();
    }
}
