//! Registration in many commits: whoever dies in between leaves something to go on with.

use shardwright_coordination::error::reason::{RunNotFound, ShardNotFound, WrongStatus};
use shardwright_coordination::{
    AsyncCoordinationBackend, AsyncRunManagement, CreateRunWithShardsError, EventKind,
    IdempotentOutcome, InfraError, RegisterShardsError, RunProgress, RunQueryError, RunStatus,
    ShardLimits,
};
use shardwright_runs::{Delivery, EngineConfig, RunAddress};
use shardwright_store::StoreLimits;
use shardwright_store::memory::MemoryStore;

use crate::flaky::{Fate, Flaky};
use crate::site::{Engine, Manifest, RUN, Site, TENANT, list, op, run_config, shard, worker};

/// So little that a manifest needs many commits.
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };
const FEW_BYTES: StoreLimits =
    StoreLimits { expectations: 16, writes: 1_000, key_bytes: 1_024, bytes: 4_000 };

/// So much that a manifest fits into one.
const PLENTY: StoreLimits =
    StoreLimits { expectations: 1_000, writes: 1_000, key_bytes: 1_024, bytes: 1 << 20 };

fn small(site: &Site, limits: StoreLimits) -> (Engine, Flaky<MemoryStore>) {
    let store = Flaky::with_limits(site.store.clone(), limits);
    (site.engine_over(store.clone(), Site::config()), store)
}

async fn register(
    engine: &Engine,
    shards: usize,
    id: u64,
) -> Result<IdempotentOutcome<()>, RegisterShardsError> {
    let manifest = Manifest::of(shards);
    engine.register_shards(TENANT, RUN, &manifest.inputs(), op(id)).await
}

/// What a registration that nobody disturbs leaves behind.
fn undisturbed(limits: StoreLimits, shards: usize) -> Vec<String> {
    let site = Site::new();
    let (engine, _) = small(&site, limits);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    site.run(register(&engine, shards, 1)).unwrap();
    site.audit();
    site.key_names()
}

#[test]
fn a_manifest_that_needs_many_commits_is_registered_whole() {
    for limits in [FEW_WRITES, FEW_BYTES] {
        let site = Site::new();
        let (engine, store) = small(&site, limits);
        site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
        let before = store.commits();
        assert_eq!(site.run(register(&engine, 20, 1)), Ok(IdempotentOutcome::Executed(())));
        assert!(store.commits() - before > 4, "it was to take many commits");
        assert_eq!(site.run(list(&engine)).len(), 20);
        site.audit();
        assert_eq!(site.run(register(&engine, 20, 1)), Ok(IdempotentOutcome::Replayed(())));
    }
}

/// Registers, dies at the given commit, and gives the world it leaves behind.
fn dead_at(commit: usize, fate: Fate, limits: StoreLimits) -> Option<Site> {
    let site = Site::new();
    let (engine, store) = small(&site, limits);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    store.henceforth(commit, fate);
    let registered = site.world.run_or_drop(register(&engine, 20, 1));
    registered.is_none().then_some(site)
}

#[test]
fn whoever_dies_between_two_commits_can_go_on_with_the_same_id() {
    for limits in [FEW_WRITES, FEW_BYTES] {
        let expected = undisturbed(limits, 20);
        for fate in [Fate::HangBefore, Fate::HangAfter] {
            let mut deaths = 0;
            while let Some(site) = dead_at(deaths, fate, limits) {
                let (engine, _) = small(&site, limits);
                site.run(register(&engine, 20, 1)).unwrap();
                assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
                site.audit();
                deaths += 1;
            }
            assert!(deaths > 4, "there were to be many commits to die at");
        }
    }
}

#[test]
fn nobody_sees_the_shards_of_a_run_before_all_of_them_are_there() {
    let mut deaths = 0;
    while let Some(site) = dead_at(deaths, Fate::HangAfter, FEW_WRITES) {
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
    assert!(deaths > 4, "there were to be many commits to die at");
}

#[test]
fn another_registration_takes_the_place_of_a_dead_one_without_traces() {
    let expected = undisturbed(FEW_WRITES, 11);
    for fate in [Fate::HangBefore, Fate::HangAfter] {
        let (mut deaths, mut replaced) = (0, 0);
        while let Some(site) = dead_at(deaths, fate, FEW_WRITES) {
            let (engine, _) = small(&site, FEW_WRITES);
            match site.run(register(&engine, 11, 2)) {
                Ok(outcome) => {
                    assert_eq!(outcome, IdempotentOutcome::Executed(()));
                    assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
                    replaced += 1;
                }
                Err(error) => {
                    // It died after its last commit, and the run has started.
                    let status = RunStatus::Active;
                    assert_eq!(error, WrongStatus { run: RUN, status }.into());
                    assert_eq!(site.run(list(&engine)).len(), 20);
                }
            }
            site.audit();
            deaths += 1;
        }
        assert!(replaced > 4, "it was to be replaced at many points");
    }
}

#[test]
fn whoever_dies_while_it_takes_the_place_of_another_can_go_on_without_traces() {
    let expected = undisturbed(FEW_WRITES, 11);
    let (mut deaths, mut died) = (0, true);
    while died {
        // The first one leaves many shards behind, the second dies somewhere on its way.
        let site = dead_at(6, Fate::HangAfter, FEW_WRITES).unwrap();
        let (engine, store) = small(&site, FEW_WRITES);
        store.henceforth(deaths, Fate::HangAfter);
        died = site.world.run_or_drop(register(&engine, 11, 2)).is_none();
        let (engine, _) = small(&site, FEW_WRITES);
        site.run(register(&engine, 11, 2)).unwrap();
        assert_eq!(site.key_names(), expected, "after a death at commit {deaths}");
        site.audit();
        deaths += 1;
    }
    assert!(deaths > 8, "there were to be many commits to die at");
}

#[test]
fn two_registrations_at_once_leave_one_manifest() {
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
fn a_late_commit_of_a_dead_registration_brings_nothing_back() {
    let mut late_commits = 0;
    for commit in 0..6 {
        let site = Site::new();
        let (engine, store) = small(&site, FEW_WRITES);
        site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
        let fates = std::iter::repeat_n(Fate::Go, commit).chain([Fate::Late, Fate::HangBefore]);
        store.next(fates);
        assert!(site.world.run_or_drop(register(&engine, 20, 1)).is_none());
        // The run is taken away, and the dead one's commit arrives only now.
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

/// Makes a run together with 20 shards.
async fn make(engine: &Engine, id: u64) -> Result<bool, String> {
    let manifest = Manifest::of(20);
    let made =
        engine.create_run_with_shards(TENANT, RUN, run_config(), &manifest.inputs(), op(id)).await;
    made.map(|outcome| outcome.is_replay()).map_err(|error| error.to_string())
}

#[test]
fn a_run_that_finds_no_room_is_not_made() {
    for limits in [FEW_WRITES, FEW_BYTES, PLENTY] {
        let site = Site::new();
        let store = Flaky::with_limits(site.store.clone(), limits);
        let shards = ShardLimits { per_tenant: 19, total: 19 };
        let config = EngineConfig { limits: shards, ..Site::config() };
        let engine = site.engine_over(store, config);
        let mut told = engine.subscribe();
        let refusal = site.run(make(&engine, 1)).unwrap_err();
        assert_eq!(refusal, "20 more would exceed the tenant's limit of 19 shards");
        let found = site.run(engine.get_run(TENANT, RUN));
        assert!(matches!(found, Err(RunQueryError::RunNotFound(_))), "{found:?}");
        assert!(site.key_names().iter().all(|key| !key.contains("run")), "{:?}", site.key_names());
        // A smaller one of the same id is made as if nothing had been.
        let manifest = Manifest::of(19);
        let inputs = manifest.inputs();
        let made = engine.create_run_with_shards(TENANT, RUN, run_config(), &inputs, op(1));
        assert_eq!(site.run(made), Ok(IdempotentOutcome::Executed(())));
        let heard = [site.run(told.next()), site.run(told.next())].map(|heard| match heard {
            Some(Delivery::Event(event)) => event.kind.clone(),
            other => panic!("{other:?}"),
        });
        let started = EventKind::RunActivated { shard_count: 19 };
        assert_eq!(heard, [EventKind::RunCreated, started]);
        site.audit();
    }
}

#[test]
fn whoever_dies_while_a_run_is_made_with_its_shards_can_go_on() {
    for limits in [FEW_WRITES, FEW_BYTES, PLENTY] {
        let expected = undisturbed(limits, 20);
        for fate in [Fate::HangBefore, Fate::HangAfter] {
            for commit in 0.. {
                let site = Site::new();
                let (engine, store) = small(&site, limits);
                store.henceforth(commit, fate);
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
fn an_answer_that_got_lost_while_a_run_is_made_is_found_out() {
    for limits in [FEW_WRITES, PLENTY] {
        for commit in 0..4 {
            let site = Site::new();
            let (engine, store) = small(&site, limits);
            let mut told = engine.subscribe();
            let fates = std::iter::repeat_n(Fate::Go, commit).chain([Fate::LoseAnswer]);
            store.next(fates);
            assert_eq!(site.run(make(&engine, 1)), Ok(false), "lost at commit {commit}");
            for expected in ["RunCreated", "RunActivated { shard_count: 20 }"] {
                let Some(Delivery::Event(event)) = site.run(told.next()) else { panic!("silence") };
                assert_eq!(format!("{:?}", event.kind), expected);
            }
            assert_eq!(site.run(make(&engine, 1)), Ok(true));
        }
    }
}

#[test]
fn whoever_made_a_run_and_not_all_its_shards_is_not_told_that_nothing_was_done() {
    let manifest = Manifest::of(20);
    let (mut made, mut skip) = (0, 0);
    loop {
        let site = Site::new();
        let (engine, store) = small(&site, FEW_WRITES);
        store.henceforth(skip, Fate::Refuse);
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
        // The same call goes on.
        store.next([]);
        assert_eq!(site.run(create()), Ok(IdempotentOutcome::Executed(())));
        assert_eq!(site.run(list(&engine)).len(), 20);
        site.audit();
        skip += 1;
    }
    assert!(made > 4, "it was to fail in many places");
}

#[test]
fn a_run_that_was_called_off_gets_no_more_shards() {
    let site = Site::new();
    let (engine, store) = small(&site, FEW_WRITES);
    site.run(engine.create_run(TENANT, RUN, run_config())).unwrap();
    // The stage is set up, some shards are on their way, and nothing more is heard.
    store.script([Fate::Go, Fate::Late], Fate::HangBefore);
    assert!(site.world.run_or_drop(register(&engine, 20, 1)).is_none());
    site.run(site.engine().cancel_run(TENANT, RUN, op(2))).unwrap();
    let before = site.key_names();
    assert_eq!(site.run(store.deliver_late()), 0);
    assert_eq!(site.key_names(), before);
}
