//! Cancelling a run whose shards are being registered.

use shardwright_coordination::error::reason::{RunTerminal, ShardNotFound, WrongStatus};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, IdempotentOutcome, RegisterShardsError,
    RunProgress, RunStatus, RunTransitionError,
};
use shardwright_runs::Retention;
use shardwright_store::memory::MemoryStore;

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::registration::{FEW_WRITES, dead_at, register, small};
use crate::site::{Engine, RUN, Site, TENANT, list, op, run_config, shard, worker};

/// The refusal of a registration whose run was cancelled.
fn cancelled() -> RegisterShardsError {
    WrongStatus { run: RUN, status: RunStatus::Cancelled }.into()
}

#[test]
fn cancelled_run_gets_no_more_shards() {
    let site = Site::new();
    let (engine, store) = small(&site, FEW_WRITES);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    // The stage is stored, a commit of shards is delayed, and the process dies.
    store.script([Reaction::Apply, Reaction::Late], Reaction::HangBefore);
    assert!(site.world.run_or_drop(register(&engine, 20, 1)).is_none());
    site.run(site.engine().cancel_run(TENANT, RUN, op(2))).unwrap();
    let before = site.key_names();
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.key_names(), before);
}

/// Keys of a run that was cancelled before it had a registration.
fn cancelled_unregistered() -> Vec<String> {
    let site = Site::new();
    let engine = site.engine();
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    site.run(engine.cancel_run(TENANT, RUN, op(2))).unwrap();
    site.key_names()
}

#[test]
fn cancelling_removes_an_unfinished_registration() {
    let expected = cancelled_unregistered();
    for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
        let (mut deaths, mut cancelled) = (0, 0);
        while let Some(site) = dead_at(deaths, reaction, FEW_WRITES) {
            deaths += 1;
            let (engine, _) = small(&site, FEW_WRITES);
            let was_active =
                site.run(engine.get_run(TENANT, RUN)).unwrap().status == RunStatus::Active;
            site.run(engine.cancel_run(TENANT, RUN, op(2))).unwrap();
            if was_active {
                continue;
            }
            assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
            let acquired = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
            assert_eq!(acquired, Err(ShardNotFound { key: shard(0) }.into()));
            let completed = site.run(engine.complete_run(TENANT, RUN, op(3)));
            let status = RunStatus::Cancelled;
            assert_eq!(completed, Err(RunTerminal { run: RUN, status }.into()));
            let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
            assert_eq!(progress, RunProgress::default());
            cancelled += 1;
        }
        assert!(cancelled > 4, "too few cancellations: {cancelled}");
    }
}

/// Cancels a half registered run, dies at a commit, and returns whether the cancellation ended.
fn cancel_and_die(site: &Site, commit: usize, reaction: Reaction) -> bool {
    let (engine, store) = small(site, FEW_WRITES);
    store.always_after(commit, reaction);
    site.world.run_or_drop(engine.cancel_run(TENANT, RUN, op(2))).is_some()
}

#[test]
fn interrupted_cancellation_resumes() {
    let expected = cancelled_unregistered();
    for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
        let mut has_ended = false;
        let mut deaths = 0;
        while !has_ended {
            let site = dead_at(6, Reaction::HangAfter, FEW_WRITES).unwrap();
            has_ended = cancel_and_die(&site, deaths, reaction);
            let (engine, _) = small(&site, FEW_WRITES);
            let status = site.run(engine.get_run(TENANT, RUN)).unwrap().status;
            // A repeated command has an operation id of its own.
            let again = site.run(engine.cancel_run(TENANT, RUN, op(7)));
            assert_eq!(again.is_err(), status == RunStatus::Cancelled, "{again:?}");
            assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
            deaths += 1;
        }
        assert!(deaths > 4, "too few commits: {deaths}");
    }
}

#[test]
fn collection_removes_the_rest_of_a_cancelled_registration() {
    let expected = cancelled_unregistered();
    let (mut has_ended, mut deaths) = (false, 0);
    while !has_ended {
        let site = dead_at(6, Reaction::HangAfter, FEW_WRITES).unwrap();
        // The first commit marks the clock, and the second cancels the run.
        has_ended = cancel_and_die(&site, deaths + 1, Reaction::HangAfter);
        deaths += 1;
        let (engine, _) = small(&site, FEW_WRITES);
        let mut deleted = Vec::new();
        site.run(engine.collect_into(Retention::default(), &mut deleted)).unwrap();
        assert!(deleted.is_empty(), "the run itself is kept");
        assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
    }
    assert!(deaths > 3, "too few commits: {deaths}");
}

#[test]
fn half_removed_registration_is_not_shown() {
    let (mut has_ended, mut deaths) = (false, 0);
    while !has_ended {
        let site = dead_at(6, Reaction::HangAfter, FEW_WRITES).unwrap();
        // The first commit marks the clock, and the second cancels the run.
        has_ended = cancel_and_die(&site, deaths + 1, Reaction::HangAfter);
        deaths += 1;
        let (engine, _) = small(&site, FEW_WRITES);
        assert_eq!(site.run(engine.get_run(TENANT, RUN)).unwrap().status, RunStatus::Cancelled);
        assert!(site.run(list(&engine)).is_empty());
        let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
        assert_eq!(progress, RunProgress::default());
        for id in 0..20 {
            let acquired = site.run(engine.acquire_and_restore(TENANT, shard(id), worker(1)));
            assert_eq!(acquired, Err(ShardNotFound { key: shard(id) }.into()));
        }
        for id in [1, 3] {
            assert_eq!(site.run(register(&engine, 20, id)), Err(cancelled()));
        }
        // Deleting the run deletes the rest, too.
        site.world.advance(10);
        let (at_once, mut deleted) = (Retention { ended_ms: 1, initializing_ms: 1 }, Vec::new());
        site.run(engine.collect_into(at_once, &mut deleted)).unwrap();
        assert_eq!(deleted.len(), 1);
        let left = site.key_names();
        assert!(left.iter().all(|key| key.contains("meta")), "{left:?}");
    }
    assert!(deaths > 4, "too few commits: {deaths}");
}

/// Two coordinators whose calls interleave, and the store of the second.
fn rivals(site: &Site) -> (Engine, Engine, FlakyStore<MemoryStore>) {
    let few = || FlakyStore::with_limits(site.store.clone(), FEW_WRITES);
    let (one, store) = (site.engine_over(YieldingStore(few()), Site::config()), few());
    (one, site.engine_over(YieldingStore(store.clone()), Site::config()), store)
}

/// Cancels the run after some commits of a store.
async fn cancel_after(
    engine: &Engine,
    store: &FlakyStore<MemoryStore>,
    commits: usize,
) -> Result<IdempotentOutcome<()>, RunTransitionError> {
    while store.commits() < commits {
        tokio::task::yield_now().await;
    }
    engine.cancel_run(TENANT, RUN, op(2)).await
}

#[test]
fn cancellation_and_registration_never_mix() {
    let (mut begun, mut refused) = (0, 0);
    for seed in 0..100 {
        let site = dead_at(seed as usize % 5, Reaction::HangAfter, FEW_WRITES).unwrap();
        let (one, other, store) = rivals(&site);
        // The registration resumes the dead one, or replaces it.
        let (shards, id) = if seed % 2 == 0 { (20, 1) } else { (11, 3) };
        let cancel = cancel_after(&one, &store, seed as usize % 8);
        let (a, b) = site.race(seed, cancel, register(&other, shards, id));
        assert_eq!(a, Ok(IdempotentOutcome::Executed(())), "seed {seed}");
        assert_eq!(site.run(one.get_run(TENANT, RUN)).unwrap().status, RunStatus::Cancelled);
        let listed = site.run(list(&one)).len();
        match b {
            Ok(_) => {
                begun += 1;
                assert_eq!(listed, shards, "seed {seed}");
            }
            Err(error) => {
                refused += 1;
                assert_eq!((error, listed), (cancelled(), 0), "seed {seed}");
            }
        }
    }
    assert!(begun > 5 && refused > 5, "{begun} begun, {refused} refused");
}

#[test]
fn cancellation_ends_a_long_registration_without_contention() {
    let expected = cancelled_unregistered();
    for seed in 0..20 {
        let site = Site::new();
        let (one, other, store) = rivals(&site);
        site.run(one.create_run(TENANT, RUN, run_config())).unwrap();
        // Removing the shards takes as long as writing them.
        let cancel = cancel_after(&one, &store, 40);
        let (a, b) = site.race(seed, cancel, register(&other, 300, 1));
        assert_eq!(a, Ok(IdempotentOutcome::Executed(())), "seed {seed}");
        assert_eq!(b, Err(cancelled()), "seed {seed}");
        assert_eq!(site.key_names(), expected, "seed {seed}");
    }
}

#[test]
fn registration_with_a_lost_answer_meets_a_cancellation() {
    for reaction in [Reaction::LoseAnswer, Reaction::Late] {
        let (mut refused, mut replayed) = (0, 0);
        for commit in 0.. {
            let site = Site::new();
            let (engine, store) = small(&site, FEW_WRITES);
            site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
            let reactions = std::iter::repeat_n(Reaction::Apply, commit).chain([reaction]);
            store.next(reactions);
            let (world, (canceller, _)) = (site.world.clone(), small(&site, FEW_WRITES));
            store.on_fault(move || {
                let cancel = canceller.cancel_run(TENANT, RUN, op(2));
                assert_eq!(world.block_on(cancel), Ok(IdempotentOutcome::Executed(())));
            });
            let registered = site.run(register(&engine, 20, 1));
            if registered == Ok(IdempotentOutcome::Executed(())) {
                break;
            }
            assert_eq!(site.run(store.deliver_late()), 0, "commit {commit}");
            let listed = site.run(list(&engine)).len();
            match &registered {
                // Only the last commit starts the run.
                Ok(_) => {
                    replayed += 1;
                    assert_eq!(listed, 20, "commit {commit}");
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!((error, listed), (&cancelled(), 0), "commit {commit}");
                }
            }
            // Repeating the call repeats the answer.
            assert_eq!(site.run(register(&engine, 20, 1)), registered, "commit {commit}");
            site.audit();
        }
        let is_applied = usize::from(reaction == Reaction::LoseAnswer);
        assert_eq!((replayed, refused), (is_applied, 9 - is_applied), "{reaction:?}");
    }
}
