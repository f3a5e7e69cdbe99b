//! Registering many shards, and many workers claiming them.

use std::time::Instant;

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
    WorkerId,
};
use shardwright_coordination::{AsyncRunManagement, AsyncShardClaiming, ClaimError, RunConfig};

use crate::Coordinator;

pub(crate) const TENANT: TenantId = TenantId::from_bytes([7; 32]);
pub(crate) const RUN: RunId = RunId::from_raw(1);
const SHARDS: usize = 10_000;
const WORKERS: u64 = 200;

pub(crate) async fn register(coordinator: &Coordinator, shards: usize) {
    register_as(coordinator, TENANT, RUN, shards).await;
}

pub(crate) async fn register_as(
    coordinator: &Coordinator,
    tenant: TenantId,
    run: RunId,
    shards: usize,
) {
    let config = RunConfig::try_new(CursorSemantics::Completed, 600_000, None).unwrap();
    let bounds: Vec<String> = (0..=shards).map(|shard| format!("{shard:08}")).collect();
    let inputs: Vec<_> = bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"{}"),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let op = OpId::from_raw(1);
    coordinator.create_run_with_shards(tenant, run, config, &inputs, op).await.unwrap();
}

pub(crate) async fn report(name: &str, coordinator: &Coordinator) {
    let counts = coordinator.counts.clone();
    counts.take();
    let begin = Instant::now();
    register(coordinator, SHARDS).await;
    let (time, made) = (begin.elapsed(), counts.take());
    println!(
        "  {name:<7} registered in {time:>8.0?}: {} commits, {} loads, {} scans",
        made.commits, made.loads, made.scans
    );
    let begin = Instant::now();
    let tasks: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move {
                let worker = WorkerId::from_raw(worker.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let mut claimed = 0_usize;
                loop {
                    match coordinator.claim_next_available(TENANT, RUN, worker).await {
                        Ok(_) => claimed += 1,
                        Err(ClaimError::NoneAvailable(_)) => return claimed,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    let mut claimed = 0;
    for task in tasks {
        claimed += task.await.unwrap();
    }
    let (time, made) = (begin.elapsed(), counts.take());
    println!(
        "  {name:<7} claimed {claimed} in {time:>8.0?}: {} commits of which {:.1} % conflicts, \
         {:.2} loads a claim, {} scans",
        made.commits,
        100.0 * made.conflicts as f64 / made.commits.max(1) as f64,
        made.loads as f64 / claimed.max(1) as f64,
        made.scans,
    );
}
