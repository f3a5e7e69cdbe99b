//! Shards use little memory, however often they are acquired.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireScratch, CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, RunConfig,
    RunManagement,
};

/// One too many for the table of ids to have half its size.
const SHARDS: u32 = 6_145;
const SLAB_BYTES: u32 = 1 << 16;

/// Counts maps, indexes and the slot table of the bytes, but not the bytes.
#[test]
fn untouched_shard_takes_at_most_600_bytes() {
    let bounds: Vec<[u8; 4]> = (0..=SHARDS).map(u32::to_be_bytes).collect();
    let shards: Vec<_> = bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let config = CoordinatorRuntimeConfig {
        max_total_shards: SHARDS as usize,
        slab_capacity: SLAB_BYTES,
        ..CoordinatorRuntimeConfig::default()
    };
    let run_config = RunConfig::try_new(CursorSemantics::Completed, 1_000, None).unwrap();
    let (tenant, run) = (TenantId::from_bytes([1; 32]), RunId::from_raw(1));
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        let mut backend = InMemoryCoordinator::try_new(config).unwrap();
        let (now, op) = (LogicalTime::from_millis(1), OpId::from_raw(1));
        backend.create_run_with_shards(now, tenant, run, run_config, &shards, op).unwrap();
        kept = Some(backend);
    });
    assert_eq!(kept.unwrap().shard_count(), SHARDS as usize);
    let each = (counted.bytes_current - i64::from(SLAB_BYTES)) / i64::from(SHARDS);
    assert!((300..=600).contains(&each), "{each} bytes");
}

/// A clock that stands still gives a shard the same deadline each time.
#[test]
fn repeated_acquires_do_not_grow_memory() {
    let mut backend = InMemoryCoordinator::try_new(CoordinatorRuntimeConfig::default()).unwrap();
    let (tenant, key) = (TenantId::from_bytes([1; 32]), ShardKey::new(RunId::from_raw(1), ONLY));
    let now = LogicalTime::from_millis(1);
    let config = RunConfig::try_new(CursorSemantics::Completed, 1_000, None).unwrap();
    let (spec, cursor) = (ShardSpecRef::new(b"a", b"b", b""), CursorUpdate::initial());
    let shards = [InitialShardInput { shard: ONLY, spec, cursor }];
    backend
        .create_run_with_shards(now, tenant, key.run, config, &shards, OpId::from_raw(0))
        .unwrap();
    let mut scratch = AcquireScratch::new();
    let mut work = |ops: std::ops::Range<u64>| {
        for op in ops {
            let worker = WorkerId::from_raw(1);
            let acquired = backend.acquire_and_restore_into(now, tenant, key, worker, &mut scratch);
            let lease = acquired.unwrap().lease;
            backend.release(now, tenant, &lease, OpId::from_raw(op)).unwrap();
        }
    };
    work(1..500);
    let counted = allocation_counter::measure(|| work(500..5_000));
    assert_eq!(counted.bytes_current, 0);
}

const ONLY: ShardId = ShardId::from_raw(0);
