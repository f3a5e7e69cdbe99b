use shardwright_contracts::{
    CursorSemantics, InitialShardInput, RunId, ShardId, plan_split_replace, plan_split_residual,
};

use super::*;
use crate::in_memory::{CoordinatorRuntimeConfig, InMemoryCoordinator};
use crate::record::RunConfig;
use crate::status::ShardStatus;
use crate::traits::RunManagement;

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const KEY: ShardKey = ShardKey::new(RunId::from_raw(7), ShardId::from_raw(0));

fn at(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

fn op(raw: u64) -> OpId {
    OpId::from_raw(raw)
}

fn backend() -> InMemoryCoordinator {
    let config = CoordinatorRuntimeConfig {
        slab_capacity: 4_096,
        max_total_shards: 64,
        ..CoordinatorRuntimeConfig::default()
    };
    let mut backend = InMemoryCoordinator::try_new(config).unwrap();
    let run_config = RunConfig::try_new(CursorSemantics::Completed, 100, None).unwrap();
    let shard = InitialShardInput {
        shard: KEY.shard,
        spec: ShardSpecRef::new(b"a", b"z", b"m"),
        cursor: CursorUpdate::initial(),
    };
    backend.create_run_with_shards(at(0), TENANT, KEY.run, run_config, &[shard], op(1)).unwrap();
    backend
}

fn open(backend: &mut InMemoryCoordinator, now: u64) -> WorkerSession<'_, InMemoryCoordinator> {
    WorkerSession::new(backend, at(now), TENANT, KEY, WorkerId::from_raw(1)).unwrap()
}

#[test]
fn session_processes_a_shard() {
    let mut backend = backend();
    let mut session = open(&mut backend, 0);
    assert_eq!((session.tenant(), session.worker()), (TENANT, WorkerId::from_raw(1)));
    assert_eq!(session.shard_key(), KEY);
    assert_eq!(session.spec(), ShardSpecRef::new(b"a", b"z", b"m"));
    assert_eq!(session.cursor(), CursorUpdate::initial());
    assert_eq!(session.capacity().available_count, 0);

    let renewed = session.renew(at(50)).unwrap();
    assert_eq!((renewed.new_deadline, session.lease().deadline()), (at(150), at(150)));
    session.checkpoint(at(60), CursorUpdate::at(b"c"), op(2)).unwrap();
    assert_eq!(session.cursor(), CursorUpdate::initial(), "the cursor is that of the acquire");
    session.complete(at(70), CursorUpdate::at(b"y"), op(3)).unwrap();
    let progress = backend.get_run_progress(at(70), TENANT, KEY.run).unwrap();
    assert_eq!(progress.done, 1);
}

#[test]
fn residual_split_narrows_the_session() {
    let mut backend = backend();
    let mut session = open(&mut backend, 0);
    let whole = ShardSpecRef::new(b"a", b"z", b"m");
    let first = plan_split_residual(whole, CursorUpdate::initial(), b"p").unwrap();
    session.split_residual(at(1), &first, op(2)).unwrap();
    let narrowed = ShardSpecRef::new(b"a", b"p", b"m");
    let second = plan_split_residual(narrowed, CursorUpdate::initial(), b"g").unwrap();
    let other = session.split_residual(at(2), &second, op(3)).unwrap();
    assert_eq!(session.spec(), ShardSpecRef::new(b"a", b"g", b"m"));
    let replay = session.split_residual(at(3), &first, op(2)).unwrap();
    assert!(replay.is_replay());
    let snapshot = session.initial_snapshot();
    assert_eq!(snapshot.spec.end(), b"g", "a late replay does not widen the range");
    let residuals = [replay, other].map(|outcome| outcome.into_inner().residual);
    let spawned: Vec<_> = snapshot.spawned.iter().map(|spawned| spawned.shard).collect();
    assert_eq!(spawned, residuals, "a replay adds no residual");
    assert_eq!(session.capacity().available_count, 0, "the hint is that of the acquire");
    session.renew(at(4)).unwrap();
    assert_eq!(session.capacity().available_count, 2);
}

#[test]
fn failed_end_returns_the_session() {
    let mut backend = backend();
    let session = open(&mut backend, 0);
    let outside = CursorUpdate::at(b"zz");
    let refused = session.complete(at(1), outside, op(2)).unwrap_err();
    assert_eq!(refused.to_string(), refused.error.to_string());
    assert!(matches!(refused.error, CompleteError::CursorOutOfBounds(_)));
    refused.session.complete(at(2), CursorUpdate::at(b"x"), op(2)).unwrap();
}

#[test]
fn session_ends_in_one_of_four_ways() {
    let mut backend = backend();
    open(&mut backend, 0).release(at(1), op(2)).unwrap();
    let session = open(&mut backend, 2);
    session.park(at(3), ParkReason::NotFound, b"gone", op(3)).unwrap();
    backend.unpark_shard(at(4), TENANT, KEY, op(4)).unwrap();
    let mut session = open(&mut backend, 5);
    session.decline_split(at(6), at(60)).unwrap();
    let spec = ShardSpecRef::new(b"a", b"z", b"m");
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[b"m"]).unwrap();
    let children = session.split_replace(at(7), &plan, op(5)).unwrap().into_inner().children;
    let child = ShardKey::new(KEY.run, children[0]);
    let mut scratch = AcquireScratch::new();
    let worker = WorkerId::from_raw(2);
    let acquired =
        backend.acquire_and_restore_into(at(8), TENANT, child, worker, &mut scratch).unwrap();
    let state = RestoredShardState::from_view(&acquired);
    assert_eq!((state.status, state.parent), (ShardStatus::Active, Some(KEY.shard)));
    let session = WorkerSession::from_acquire_result(&mut backend, state);
    assert_eq!(session.shard_key(), child);
    assert!(!format!("{session:?}").contains("[97"), "no key bytes in text");
    session.complete(at(9), CursorUpdate::initial(), op(6)).unwrap();
}
