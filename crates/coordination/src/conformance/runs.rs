//! Runs as a whole.

use shardwright_contracts::{CursorSemantics, CursorUpdate, RunId, ShardId, WorkerId};

use super::{Harness, LEASE_MS, World, assert_refused, manifest, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::error::reason::ConfigMismatch;
use crate::error::{
    AcquireError, CheckpointError, CreateRunError, RegisterShardsError, RunQueryError,
    RunTransitionError, UnparkError,
};
use crate::record::RunConfig;
use crate::status::{ParkReason, RunStatus, ShardStatus};
use crate::traits::CreateRunWithShardsError;

/// A run that has ended keeps its final status.
pub async fn run_ends_once<H: Harness>(harness: &H) {
    for status in [RunStatus::Failed, RunStatus::Cancelled] {
        let world = World::new(harness, &[b"a", b"z"]).await;
        let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
        match status {
            RunStatus::Failed => backend.fail_run(tenant, run, op(1)).await.unwrap(),
            _ => backend.cancel_run(tenant, run, op(1)).await.unwrap(),
        };
        let record = backend.get_run(tenant, run).await.unwrap();
        assert_eq!(record.status, status);
        assert!(record.completed_at.is_some());
        for refused in [
            backend.complete_run(tenant, run, op(2)).await,
            backend.fail_run(tenant, run, op(3)).await,
            backend.cancel_run(tenant, run, op(4)).await,
            backend.pause_run(tenant, run, op(5)).await,
        ] {
            assert!(matches!(refused, Err(RunTransitionError::RunTerminal(_))), "{refused:?}");
        }
    }
}

/// A run with active or parked shards cannot be completed.
pub async fn run_completes_only_without_unfinished_shards<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let first = world.acquire(0, 1).await;
    world.complete(&first, 1).await;
    let early = backend.complete_run(tenant, run, op(2)).await;
    assert!(matches!(early, Err(RunTransitionError::RunUnfinished(_))), "{early:?}");
    let second = world.acquire(1, 1).await;
    backend.park_shard(tenant, &second, ParkReason::Other, b"", op(3)).await.unwrap();
    let parked = backend.complete_run(tenant, run, op(2)).await;
    assert!(matches!(parked, Err(RunTransitionError::RunUnfinished(_))), "{parked:?}");
    backend.unpark_shard(tenant, world.key(1), op(4)).await.unwrap();
    let second = world.acquire(1, 1).await;
    world.complete(&second, 5).await;
    backend.complete_run(tenant, run, op(2)).await.unwrap();
    let progress = backend.get_run_progress(tenant, run).await.unwrap();
    assert_eq!((progress.done, progress.total()), (2, 2));
}

/// The shards of an ended run do not change.
pub async fn shards_of_an_ended_run_do_not_change<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"g", b"m", b"z"]).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let (held, parked) = (world.acquire(0, 1).await, world.acquire(1, 1).await);
    backend.park_shard(tenant, &parked, ParkReason::Other, b"", op(1)).await.unwrap();
    backend.cancel_run(tenant, world.run, op(2)).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let checkpoint = backend.checkpoint(tenant, &held, cursor, op(3)).await;
    assert!(matches!(checkpoint, Err(CheckpointError::RunNotActive(_))), "{checkpoint:?}");
    let worker = WorkerId::from_raw(2);
    let acquire = backend.acquire_and_restore(tenant, world.key(2), worker).await;
    assert!(matches!(acquire, Err(AcquireError::RunNotActive(_))), "{acquire:?}");
    let unpark = backend.unpark_shard(tenant, world.key(1), op(4)).await;
    assert!(matches!(unpark, Err(UnparkError::RunTerminal(_))), "{unpark:?}");
}

/// A pause stops new grants, not the current holders.
pub async fn paused_run_grants_nothing_but_holders_continue<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let held = world.acquire(0, 1).await;
    backend.pause_run(tenant, run, op(1)).await.unwrap();
    assert!(world.notice(&held).await.paused);
    world.checkpoint(&held, "c", 2).await;
    backend.release(tenant, &held, op(3)).await.unwrap();
    let worker = WorkerId::from_raw(2);
    let acquire = backend.acquire_and_restore(tenant, world.key(0), worker).await;
    assert!(matches!(acquire, Err(AcquireError::RunPaused(_))), "{acquire:?}");
    backend.resume_run(tenant, run, op(4)).await.unwrap();
    world.acquire(0, 2).await;
}

/// Registration is one operation, and a run is registered once.
pub async fn repeated_registration_is_a_replay_or_a_conflict<H: Harness>(harness: &H) {
    let (backend, tenant, run) = (harness.backend(), harness.fresh_tenant(), RunId::from_raw(9));
    let config = RunConfig::try_new(CursorSemantics::Dispatched, LEASE_MS, Some(3)).unwrap();
    backend.create_run(tenant, run, config).await.unwrap();
    let created = backend.create_run(tenant, run, config).await;
    assert_refused!(created, CreateRunError::RunAlreadyExists(_));
    let shards = manifest(&[b"a", b"m", b"z"]);
    let registered = backend.register_shards(tenant, run, &[], op(1)).await;
    assert_refused!(registered, RegisterShardsError::ManifestInvalid(_));
    let first = backend.register_shards(tenant, run, &shards, op(1)).await.unwrap();
    let again = backend.register_shards(tenant, run, &shards, op(1)).await.unwrap();
    assert!(!first.is_replay() && again.is_replay());
    let other = backend.register_shards(tenant, run, &shards[..1], op(1)).await;
    assert!(matches!(other, Err(RegisterShardsError::OpIdConflict(_))), "{other:?}");
    let late = backend.register_shards(tenant, run, &shards, op(2)).await;
    assert!(matches!(late, Err(RegisterShardsError::WrongStatus(_))), "{late:?}");
    let record = backend.get_run(tenant, run).await.unwrap();
    assert_eq!((record.status, record.config), (RunStatus::Active, config));
    assert_eq!(record.root_shards, [0, 1].map(ShardId::from_raw));
}

/// A retry finds the created run. A refusal leaves no waiting run behind.
pub async fn run_and_shards_are_created_atomically<H: Harness>(harness: &H) {
    let (backend, tenant, run) = (harness.backend(), harness.fresh_tenant(), RunId::from_raw(4));
    let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
    let other = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS + 1, None).unwrap();
    let shards = manifest(&[b"a", b"m", b"z"]);
    let overlapping = [shards[0], shards[0]];
    for wrong in [&[][..], &overlapping] {
        let refused = backend.create_run_with_shards(tenant, run, config, wrong, op(1)).await;
        let Err(CreateRunWithShardsError::Register(refused)) = refused else {
            panic!("{refused:?}")
        };
        assert!(matches!(refused, RegisterShardsError::ManifestInvalid(_)), "{refused:?}");
        let missing = backend.get_run(tenant, run).await;
        assert!(matches!(missing, Err(RunQueryError::RunNotFound(_))), "{missing:?}");
    }
    let first = backend.create_run_with_shards(tenant, run, config, &shards, op(1)).await.unwrap();
    let again = backend.create_run_with_shards(tenant, run, config, &shards, op(1)).await.unwrap();
    assert!(!first.is_replay() && again.is_replay());
    let refusals = [
        backend.create_run_with_shards(tenant, run, other, &shards, op(1)).await,
        backend.create_run_with_shards(tenant, run, config, &shards[..1], op(1)).await,
        backend.create_run_with_shards(tenant, run, config, &shards, op(2)).await,
    ];
    let [Err(otherwise), Err(conflict), Err(late)] = refusals else { panic!("{refusals:?}") };
    let mismatch = CreateRunError::ConfigMismatch(ConfigMismatch { run });
    assert_eq!(otherwise, CreateRunWithShardsError::Create(mismatch));
    let CreateRunWithShardsError::Register(conflict) = conflict else { panic!("{conflict:?}") };
    assert!(matches!(conflict, RegisterShardsError::OpIdConflict(_)), "{conflict:?}");
    let CreateRunWithShardsError::Register(late) = late else { panic!("{late:?}") };
    assert!(matches!(late, RegisterShardsError::WrongStatus(_)), "{late:?}");
    let record = backend.get_run(tenant, run).await.unwrap();
    assert_eq!((record.status, record.config), (RunStatus::Active, config));
    assert_eq!(record.root_shards, [0, 1].map(ShardId::from_raw));
}

/// A created run without shards can be started with its shards.
pub async fn waiting_run_is_adopted<H: Harness>(harness: &H) {
    let (backend, tenant, run) = (harness.backend(), harness.fresh_tenant(), RunId::from_raw(5));
    let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
    let other = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, Some(2)).unwrap();
    let shards = manifest(&[b"a", b"z"]);
    backend.create_run(tenant, run, config).await.unwrap();
    let refused = backend.create_run_with_shards(tenant, run, other, &shards, op(1)).await;
    let mismatch = CreateRunError::ConfigMismatch(ConfigMismatch { run });
    assert_eq!(refused, Err(CreateRunWithShardsError::Create(mismatch)));
    let refused = backend.create_run_with_shards(tenant, run, config, &[], op(1)).await;
    assert!(refused.is_err());
    let waiting = backend.get_run(tenant, run).await.unwrap();
    assert_eq!(waiting.status, RunStatus::Initializing, "the waiting run is unchanged");
    let taken = backend.create_run_with_shards(tenant, run, config, &shards, op(1)).await.unwrap();
    assert!(!taken.is_replay());
    let started = backend.get_run(tenant, run).await.unwrap();
    assert_eq!(started.created_at, waiting.created_at);
    assert_eq!((started.status, started.root_shards.len()), (RunStatus::Active, 1));
    let again = backend.register_shards(tenant, run, &shards, op(1)).await.unwrap();
    assert!(again.is_replay(), "the registration is replayed");
}

/// A retry of an operator's transition changes nothing.
pub async fn run_transitions_are_replayed<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let is_paused = async || backend.get_run(tenant, run).await.unwrap().paused;
    assert!(!backend.pause_run(tenant, run, op(1)).await.unwrap().is_replay());
    assert!(backend.pause_run(tenant, run, op(1)).await.unwrap().is_replay());
    assert!(is_paused().await);
    assert!(!backend.resume_run(tenant, run, op(2)).await.unwrap().is_replay());
    assert!(backend.resume_run(tenant, run, op(2)).await.unwrap().is_replay());
    assert!(backend.pause_run(tenant, run, op(1)).await.unwrap().is_replay());
    assert!(!is_paused().await, "a replay does not pause again");
    let conflict = backend.resume_run(tenant, run, op(1)).await;
    assert_refused!(conflict, RunTransitionError::OpIdConflict(_));
    let lease = world.acquire(0, 1).await;
    world.complete(&lease, 3).await;
    assert!(!backend.complete_run(tenant, run, op(4)).await.unwrap().is_replay());
    assert!(backend.complete_run(tenant, run, op(4)).await.unwrap().is_replay());
    assert!(backend.pause_run(tenant, run, op(1)).await.unwrap().is_replay(), "also after the end");
    let record = backend.get_run(tenant, run).await.unwrap();
    assert_eq!((record.status, record.paused), (RunStatus::Done, false));
}

/// With a retry limit, a shard that crashes its workers is no longer granted.
pub async fn acquire_without_progress_parks_the_shard<H: Harness>(harness: &H) {
    let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, Some(2)).unwrap();
    let world = World::with_config(harness, &[b"a", b"z"], config).await;
    let acquire = async |worker| {
        let worker = WorkerId::from_raw(worker);
        world.backend().acquire_and_restore(world.tenant, world.key(0), worker).await
    };
    for attempt in 1..3 {
        let state = acquire(attempt).await.unwrap();
        assert_eq!(
            [state.acquires, state.acquires_without_progress].map(u64::from),
            [attempt; 2],
            "the holder sees the number of attempts"
        );
        harness.advance(LEASE_MS).await;
    }
    let third = acquire(3).await;
    assert!(matches!(third, Err(AcquireError::RetriesExhausted(_))), "{third:?}");
    let summary = world.shard(ShardId::from_raw(0)).await;
    let parked = (ShardStatus::Parked, Some(ParkReason::TooManyErrors));
    assert_eq!((summary.status, summary.park_reason), parked);
}

/// All keys below the watermark are done, and it never decreases.
pub async fn keys_below_the_watermark_are_done<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let reached = async || {
        let progress = backend.get_run_progress(tenant, run).await.unwrap();
        String::from_utf8(progress.watermark.unwrap().into()).unwrap()
    };
    assert_eq!(reached().await, "a");
    let (left, right) = (world.acquire(0, 1).await, world.acquire(1, 2).await);
    world.checkpoint(&right, "x", 1).await;
    assert_eq!(reached().await, "a");
    world.checkpoint(&left, "f", 2).await;
    assert_eq!(reached().await, "f");
    world.complete(&left, 3).await;
    assert_eq!(reached().await, "x");
    world.complete(&right, 4).await;
    assert_eq!(reached().await, "z");
}
