//! A busy coordinator does not allocate.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpecRef, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireScratch, CoordinationBackend, CoordinatorRuntimeConfig, InMemoryCoordinator, RunConfig,
    RunManagement,
};

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const RUN: RunId = RunId::from_raw(1);
const SHARDS: u64 = 500;
const LEASE_MS: u64 = 1_000;

/// Acquires, renews and checkpoints every shard in turn, then lets the leases expire.
fn round(backend: &mut InMemoryCoordinator, scratch: &mut AcquireScratch, number: u64) {
    let now = LogicalTime::from_millis(number * LEASE_MS);
    for shard in 0..SHARDS {
        let key = ShardKey::new(RUN, ShardId::from_raw(shard));
        let worker = WorkerId::from_raw(shard % 7);
        let acquired = backend.acquire_and_restore_into(now, TENANT, key, worker, scratch).unwrap();
        let lease = acquired.lease;
        for step in 0..3 {
            let now = now.saturating_add(step);
            backend.renew(now, TENANT, &lease).unwrap();
            let mut last_key = [0; 12];
            last_key[..4].copy_from_slice(&(shard as u32).to_be_bytes());
            last_key[4..].copy_from_slice(&(number * 4 + step).to_be_bytes());
            let cursor = CursorUpdate::new(Some(&last_key), Some(b"token"));
            let op = OpId::from_raw(number * 4 + step);
            backend.checkpoint(now, TENANT, &lease, cursor, op).unwrap();
        }
    }
}

#[test]
fn warm_hot_path_does_not_allocate() {
    let config = CoordinatorRuntimeConfig {
        max_total_shards: SHARDS as usize,
        slab_capacity: 1 << 20,
        ..CoordinatorRuntimeConfig::default()
    };
    let mut backend = InMemoryCoordinator::try_new(config).unwrap();
    let bounds: Vec<[u8; 4]> = (0..=SHARDS as u32).map(|n| n.to_be_bytes()).collect();
    let shards: Vec<_> = bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b"metadata"),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let run_config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
    let now = LogicalTime::from_millis(1);
    let op = OpId::from_raw(u64::MAX);
    backend.create_run_with_shards(now, TENANT, RUN, run_config, &shards, op).unwrap();

    let mut scratch = AcquireScratch::new();
    for number in 1..8 {
        round(&mut backend, &mut scratch, 2 * number);
    }
    let counted = allocation_counter::measure(|| {
        for number in 8..16 {
            round(&mut backend, &mut scratch, 2 * number);
        }
    });
    assert_eq!(counted.count_total, 0);
}
