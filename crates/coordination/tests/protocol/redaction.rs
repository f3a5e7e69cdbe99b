//! User data stays out of debug output: keys, metadata, tokens and descriptions.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireScratch, CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, ParkReason,
    RestoredShardState, RunConfig, RunLabel, RunManagement, RunName, ShardFilter, WorkerSession,
};

const SECRET: &[u8] = b"secret";

fn assert_hidden(what: &str, text: &str) {
    let as_numbers = format!("{SECRET:?}");
    let as_numbers = as_numbers.trim_matches(['[', ']']);
    for shown in ["secret", as_numbers, "736563726574"] {
        assert!(!text.contains(shown), "{what}: {text}");
    }
}

#[test]
fn debug_output_shows_no_user_bytes() {
    let mut backend = InMemoryCoordinator::try_new(CoordinatorRuntimeConfig::default()).unwrap();
    let (tenant, now) = (TenantId::from_bytes([1; 32]), LogicalTime::from_millis(1));
    let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(0));
    let worker = WorkerId::from_raw(1);
    let config = RunConfig::try_new(CursorSemantics::Completed, 1_000, None).unwrap();
    let spec = ShardSpecRef::new(b"secret", b"secret~", b"secret");
    let cursor = CursorUpdate::initial();
    let shards = [InitialShardInput { shard: key.shard, spec, cursor }];
    let op = OpId::from_raw;
    backend.create_run_with_shards(now, tenant, key.run, config, &shards, op(1)).unwrap();
    let mut scratch = AcquireScratch::new();
    for round in 0..2 {
        let acquired =
            backend.acquire_and_restore_into(now, tenant, key, worker, &mut scratch).unwrap();
        assert_hidden("a view", &format!("{acquired:?}"));
        let state = RestoredShardState::from_view(&acquired);
        assert_hidden("a scratch", &format!("{scratch:?}"));
        assert_hidden("a state", &format!("{state:?}"));
        let mut session = WorkerSession::from_acquire_result(&mut backend, state);
        assert_hidden("a session", &format!("{session:?}"));
        let reached = CursorUpdate::new(Some(b"secret!"), Some(SECRET));
        session.checkpoint(now, reached, op(10 + round)).unwrap();
        session.release(now, op(20 + round)).unwrap();
    }
    let progress = backend.get_run_progress(now, tenant, key.run).unwrap();
    assert!(progress.watermark.as_deref().is_some_and(|key| key.starts_with(SECRET)));
    assert_hidden("a progress", &format!("{progress:?}"));
    let session = WorkerSession::new(&mut backend, now, tenant, key, worker).unwrap();
    session.park(now, ParkReason::Other, SECRET, op(30)).unwrap();
    let mut summaries = Vec::new();
    let all = ShardFilter::all();
    backend.list_shards_into(now, tenant, key.run, all, &mut summaries).unwrap();
    assert_eq!(summaries.len(), 1);
    assert_hidden("a summary", &format!("{summaries:?}"));
    let label = RunLabel { name: RunName::new("job").unwrap(), description: SECRET.into() };
    assert_hidden("a label", &format!("{label:?}"));
}
