//! Registrations of many commits resume after a crash.

use shardwright_coordination::error::reason::{RunNotFound, ShardNotFound, WrongStatus};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, CreateRunWithShardsError, EventKind,
    IdempotentOutcome, InfraError, RegisterShardsError, RunProgress, RunQueryError, RunStatus,
    ShardLimits,
};
use shardwright_runs::{Delivery, EngineConfig, RunAddress};
use shardwright_store::StoreLimits;
use shardwright_store::memory::MemoryStore;

use crate::flaky::{FlakyStore, Reaction};
use crate::site::{Engine, Manifest, RUN, Site, TENANT, list, op, run_config, shard, worker};

/// So small that a manifest needs many commits.
pub(crate) const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };
const FEW_BYTES: StoreLimits =
    StoreLimits { expectations: 16, writes: 1_000, key_bytes: 1_024, bytes: 4_000 };

/// So large that a manifest fits into one commit.
const PLENTY: StoreLimits =
    StoreLimits { expectations: 1_000, writes: 1_000, key_bytes: 1_024, bytes: 1 << 20 };

pub(crate) fn small(site: &Site, limits: StoreLimits) -> (Engine, FlakyStore<MemoryStore>) {
    let store = FlakyStore::with_limits(site.store.clone(), limits);
    (site.engine_over(store.clone(), Site::config()), store)
}

pub(crate) async fn register(
    engine: &Engine,
    shards: usize,
    id: u64,
) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
    let manifest = Manifest::of(shards);
    engine.register_shards(TENANT, RUN, &manifest.inputs(), op(id)).await
}

/// Keys after an undisturbed registration.
fn undisturbed(limits: StoreLimits, shards: usize) -> Vec<String> {
    let site = Site::new();
    let (engine, _) = small(&site, limits);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    site.run(register(&engine, shards, 1)).unwrap();
    site.audit();
    site.key_names()
}

#[test]
fn large_manifest_is_registered_whole() {
    for limits in [FEW_WRITES, FEW_BYTES] {
        let site = Site::new();
        let (engine, store) = small(&site, limits);
        site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
        let before = store.commits();
        assert_eq!(site.run(register(&engine, 20, 1)), Ok(IdempotentOutcome::Executed(())));
        assert!(store.commits() - before > 4, "too few commits");
        assert_eq!(site.run(list(&engine)).len(), 20);
        site.audit();
        assert_eq!(site.run(register(&engine, 20, 1)), Ok(IdempotentOutcome::Replayed(())));
    }
}

/// Registers, dies at the given commit, and returns the site; none if the registration finished.
pub(crate) fn dead_at(commit: usize, reaction: Reaction, limits: StoreLimits) -> Option<Site> {
    let site = Site::new();
    let (engine, store) = small(&site, limits);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    store.always_after(commit, reaction);
    let registered = site.world.run_or_drop(register(&engine, 20, 1));
    registered.is_none().then_some(site)
}

#[test]
fn interrupted_registration_resumes_with_the_same_id() {
    for limits in [FEW_WRITES, FEW_BYTES] {
        let expected = undisturbed(limits, 20);
        for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
            let mut deaths = 0;
            while let Some(site) = dead_at(deaths, reaction, limits) {
                let (engine, _) = small(&site, limits);
                site.run(register(&engine, 20, 1)).unwrap();
                assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
                site.audit();
                deaths += 1;
            }
            assert!(deaths > 4, "too few commits: {deaths}");
        }
    }
}

#[test]
fn shards_are_hidden_until_all_are_registered() {
    let mut deaths = 0;
    while let Some(site) = dead_at(deaths, Reaction::HangAfter, FEW_WRITES) {
        deaths += 1;
        let engine = site.engine();
        let record = site.run(engine.get_run(TENANT, RUN)).unwrap();
        if record.status == RunStatus::Active {
            continue;
        }
        assert!(site.run(list(&engine)).is_empty(), "after a death at commit {deaths}");
        let progress = site.run(engine.get_run_progress(TENANT, RUN)).unwrap();
        assert_eq!(progress, RunProgress::default());
        let acquired = site.run(engine.acquire_and_restore(TENANT, shard(0), worker(1)));
        assert_eq!(acquired, Err(ShardNotFound { key: shard(0) }.into()));
    }
    assert!(deaths > 4, "too few commits: {deaths}");
}

#[test]
fn dead_registration_is_replaced_without_traces() {
    let expected = undisturbed(FEW_WRITES, 11);
    for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
        let (mut deaths, mut replaced) = (0, 0);
        while let Some(site) = dead_at(deaths, reaction, FEW_WRITES) {
            let (engine, _) = small(&site, FEW_WRITES);
            match site.run(register(&engine, 11, 2)) {
                Ok(outcome) => {
                    assert_eq!(outcome, IdempotentOutcome::Executed(()));
                    assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
                    replaced += 1;
                }
                Err(error) => {
                    // The process died after its last commit, and the run has started.
                    let status = RunStatus::Active;
                    assert_eq!(error, WrongStatus { run: RUN, status }.into());
                    assert_eq!(site.run(list(&engine)).len(), 20);
                }
            }
            site.audit();
            deaths += 1;
        }
        assert!(replaced > 4, "too few replacements: {replaced}");
    }
}

#[test]
fn interrupted_replacement_resumes_without_traces() {
    let expected = undisturbed(FEW_WRITES, 11);
    let (mut deaths, mut died) = (0, true);
    while died {
        // The first process leaves many shards behind. The second dies at some commit.
        let site = dead_at(6, Reaction::HangAfter, FEW_WRITES).unwrap();
        let (engine, store) = small(&site, FEW_WRITES);
        store.always_after(deaths, Reaction::HangAfter);
        died = site.world.run_or_drop(register(&engine, 11, 2)).is_none();
        let (engine, _) = small(&site, FEW_WRITES);
        site.run(register(&engine, 11, 2)).unwrap();
        assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
        site.audit();
        deaths += 1;
    }
    assert!(deaths > 8, "too few commits: {deaths}");
}

#[test]
fn concurrent_registrations_leave_one_manifest() {
    for seed in 0..60 {
        let site = Site::new();
        let (one, _) = small(&site, FEW_WRITES);
        let (other, _) = small(&site, FEW_WRITES);
        site.run(one.create_run(TENANT, RUN, run_config())).unwrap();
        let (a, b) = site.race(seed, register(&one, 20, 1), register(&other, 11, 2));
        let shards = site.run(list(&one)).len();
        match (&a, &b) {
            (Ok(_), Err(_)) => assert_eq!(shards, 20),
            (Err(_), Ok(_)) => assert_eq!(shards, 11),
            _ => panic!("seed {seed}: {a:?} and {b:?}"),
        }
        site.audit();
    }
}

#[test]
fn late_commit_of_a_dead_registration_writes_nothing() {
    let mut late_commits = 0;
    for commit in 0..6 {
        let site = Site::new();
        let (engine, store) = small(&site, FEW_WRITES);
        site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
        let reactions = std::iter::repeat_n(Reaction::Apply, commit)
            .chain([Reaction::Late, Reaction::HangBefore]);
        store.next(reactions);
        assert!(site.world.run_or_drop(register(&engine, 20, 1)).is_none());
        // The run is deleted before the dead process's commit arrives.
        let (collector, mut collected) = (site.engine(), Vec::new());
        site.world.advance(10);
        site.run(collector.gc_stale_initializing_runs_into(1, &mut collected)).unwrap();
        assert_eq!(collected, [RunAddress { tenant: TENANT, run: RUN }]);
        let before = site.key_names();
        assert_eq!(site.run(store.deliver_late()), 0, "late commit {commit}");
        assert_eq!(site.key_names(), before);
        site.audit();
        late_commits += 1;
        let again = site.run(register(&engine, 20, 1));
        assert_eq!(again, Err(RunNotFound { run: RUN }.into()));
    }
    assert_eq!(late_commits, 6);
}

/// Creates a run with 20 shards.
async fn make(engine: &Engine, id: u64) -> Result<bool, String> {
    let manifest = Manifest::of(20);
    let made =
        engine.create_run_with_shards(TENANT, RUN, run_config(), &manifest.inputs(), op(id)).await;
    made.map(|outcome| outcome.is_replay()).map_err(|error| error.to_string())
}

#[test]
fn run_without_room_for_its_shards_is_not_created() {
    for limits in [FEW_WRITES, FEW_BYTES, PLENTY] {
        let site = Site::new();
        let store = FlakyStore::with_limits(site.store.clone(), limits);
        let shards = ShardLimits { per_tenant: 19, total: 19 };
        let config = EngineConfig { limits: shards, ..Site::config() };
        let engine = site.engine_over(store, config);
        let mut events = engine.subscribe();
        let refusal = site.run(make(&engine, 1)).unwrap_err();
        assert_eq!(refusal, "20 more shards would exceed the tenant's limit of 19; 0 exist");
        let found = site.run(engine.get_run(TENANT, RUN));
        assert!(matches!(found, Err(RunQueryError::RunNotFound(_))), "{found:?}");
        assert!(site.key_names().iter().all(|key| !key.contains("run")), "{:?}", site.key_names());
        // A smaller run with the same id is created.
        let manifest = Manifest::of(19);
        let inputs = manifest.inputs();
        let made = engine.create_run_with_shards(TENANT, RUN, run_config(), &inputs, op(1));
        assert_eq!(site.run(made), Ok(IdempotentOutcome::Executed(())));
        let published = [site.run(events.next()), site.run(events.next())].map(|next| match next {
            Some(Delivery::Event(event)) => event.kind.clone(),
            other => panic!("{other:?}"),
        });
        let started = EventKind::RunActivated { shard_count: 19 };
        assert_eq!(published, [EventKind::RunCreated, started]);
        site.audit();
    }
}

#[test]
fn interrupted_creation_with_shards_resumes() {
    for limits in [FEW_WRITES, FEW_BYTES, PLENTY] {
        let expected = undisturbed(limits, 20);
        for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
            for commit in 0.. {
                let site = Site::new();
                let (engine, store) = small(&site, limits);
                store.always_after(commit, reaction);
                let is_over = site.world.run_or_drop(make(&engine, 1)).is_some();
                let (engine, _) = small(&site, limits);
                site.run(make(&engine, 1)).unwrap();
                assert_eq!(site.key_names(), expected, "after a death at commit {commit}");
                site.audit();
                if is_over {
                    break;
                }
            }
        }
    }
}

#[test]
fn lost_answer_of_a_creation_is_resolved() {
    for limits in [FEW_WRITES, PLENTY] {
        for commit in 0..4 {
            let site = Site::new();
            let (engine, store) = small(&site, limits);
            let mut events = engine.subscribe();
            let reactions =
                std::iter::repeat_n(Reaction::Apply, commit).chain([Reaction::LoseAnswer]);
            store.next(reactions);
            assert_eq!(site.run(make(&engine, 1)), Ok(false), "lost at commit {commit}");
            for expected in ["RunCreated", "RunActivated { shard_count: 20 }"] {
                let Some(Delivery::Event(event)) = site.run(events.next()) else {
                    panic!("no event")
                };
                assert_eq!(format!("{:?}", event.kind), expected);
            }
            assert_eq!(site.run(make(&engine, 1)), Ok(true));
        }
    }
}

#[test]
fn partial_creation_is_unknown_not_unapplied() {
    let manifest = Manifest::of(20);
    let (mut made, mut skip) = (0, 0);
    loop {
        let site = Site::new();
        let (engine, store) = small(&site, FEW_WRITES);
        store.always_after(skip, Reaction::Refuse);
        let inputs = manifest.inputs();
        let create = || engine.create_run_with_shards(TENANT, RUN, run_config(), &inputs, op(1));
        let Err(refusal) = site.run(create()) else { break };
        let CreateRunWithShardsError::Register(RegisterShardsError::BackendError(error)) = refusal
        else {
            panic!("{refusal:?}");
        };
        let is_there = site.run(engine.get_run(TENANT, RUN)).is_ok();
        let is_unknown = matches!(error, InfraError::Unknown { .. });
        assert_eq!(is_there, is_unknown, "after {skip} commits: {error:?}");
        made += usize::from(is_there);
        // The same call resumes.
        store.next([]);
        assert_eq!(site.run(create()), Ok(IdempotentOutcome::Executed(())));
        assert_eq!(site.run(list(&engine)).len(), 20);
        site.audit();
        skip += 1;
    }
    assert!(made > 4, "too few failures: {made}");
}
