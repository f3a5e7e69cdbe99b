//! A checkpoint as a request allocates no more than one as a method.

use shardwright_contracts::{
    CursorInput, CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId,
    ShardId, ShardKey, ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::operation::{Checkpoint, Renew};
use shardwright_coordination::{
    AcquireScratch, CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, RunConfig,
    RunManagement,
};

#[test]
fn requests_do_not_allocate() {
    let config = CoordinatorRuntimeConfig { slab_capacity: 1 << 16, ..Default::default() };
    let mut backend = InMemoryCoordinator::try_new(config).unwrap();
    let (tenant, run) = (TenantId::from_bytes([1; 32]), RunId::from_raw(1));
    let key = ShardKey::new(run, ShardId::from_raw(0));
    let (spec, cursor) = (ShardSpecRef::new(b"a", b"b", b""), CursorUpdate::initial());
    let shards = [InitialShardInput { shard: key.shard, spec, cursor }];
    let run_config = RunConfig::try_new(CursorSemantics::Completed, 1_000, None).unwrap();
    let (now, op) = (LogicalTime::from_millis(1), OpId::from_raw(u64::MAX));
    backend.create_run_with_shards(now, tenant, run, run_config, &shards, op).unwrap();
    let (worker, mut scratch) = (WorkerId::from_raw(1), AcquireScratch::new());
    let acquired = backend.acquire_and_restore_into(now, tenant, key, worker, &mut scratch);
    let lease = acquired.unwrap().lease;
    let mut work = |ops: std::ops::Range<u64>| {
        for op in ops {
            backend.call(now, tenant, Renew { lease }.into()).unwrap();
            let mut last_key = *b"a00000000";
            last_key[1..].copy_from_slice(&op.to_be_bytes());
            let cursor = CursorInput::new(Some(last_key.as_slice()), Some(b"token"));
            let request = Checkpoint { lease, cursor, op: OpId::from_raw(op) };
            backend.call(now, tenant, request.into()).unwrap();
        }
    };
    work(1..100);
    let counted = allocation_counter::measure(|| work(100..500));
    assert_eq!(counted.count_total, 0);
}
