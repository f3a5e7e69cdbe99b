//! A shard that waits for its first worker takes little memory.
#![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId,
    ShardSpecRef, TenantId,
};
use shardwright_coordination::{
    CoordinatorRuntimeConfig, InMemoryCoordinator, RunConfig, RunManagement,
};

/// Just too many for the table of ids to be half as large.
const SHARDS: u32 = 6_145;
const SLAB_BYTES: u32 = 1 << 16;

/// Maps and indexes and a table for the bytes of so many shards count, the bytes do not.
#[test]
fn a_shard_that_nobody_has_acquired_takes_600_bytes_at_most() {
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
