//! Memory of a coordinator.

use std::fs;

use shardwright_contracts::{CursorUpdate, OpId, RunId, TenantId, WorkerId};
use shardwright_coordination::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
};
use shardwright_runs::Retention;
use shardwright_store::file::{FileOptions, FileStore};
use tempfile::TempDir;

use crate::shards::register_as;
use crate::{Coordinator, open};

/// Runs of 10,000 shards each.
const RUNS: u64 = 10;
const SHARDS: usize = 10_000;
/// One per second, for an hour.
const SHORT_RUNS: u64 = 3_600;

pub(crate) async fn report() {
    println!("\nmemory of a coordinator");
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    let coordinator = open(store).await;
    let before = resident();
    for run in 0..RUNS {
        let tenant = tenant(run);
        register_as(&coordinator, tenant, RunId::from_raw(run), SHARDS).await;
        claim_all(&coordinator, tenant, RunId::from_raw(run)).await;
    }
    let held = resident().saturating_sub(before);
    let shards = RUNS * SHARDS as u64;
    println!("  serving {shards} held shards: {} MiB, {} bytes each", held >> 20, held / shards);
    drop(coordinator);

    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    let coordinator = open(store).await;
    for run in 0..SHORT_RUNS {
        short_run(&coordinator, RunId::from_raw(run)).await;
        if run % (SHORT_RUNS / 6) == SHORT_RUNS / 6 - 1 {
            let mut collected = Vec::new();
            let retention = Retention { ended_ms: 0, initializing_ms: 0 };
            coordinator.collect_into(retention, &mut collected).await.unwrap();
            println!("  after {:4} short runs: {} MiB resident", run + 1, resident() >> 20);
        }
    }
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4_096
}

fn tenant(number: u64) -> TenantId {
    let mut bytes = [7; TenantId::SIZE];
    for (byte, digit) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *byte = digit;
    }
    TenantId::from_bytes(bytes)
}

async fn claim_all(coordinator: &Coordinator, tenant: TenantId, run: RunId) {
    let tasks: Vec<_> = (0..64)
        .map(|worker| {
            let coordinator = coordinator.clone();
            tokio::spawn(async move {
                let worker = WorkerId::from_raw(worker);
                while coordinator.claim_next_available(tenant, run, worker).await.is_ok() {}
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn short_run(coordinator: &Coordinator, run: RunId) {
    let (tenant, worker) = (tenant(0), WorkerId::from_raw(1));
    register_as(coordinator, tenant, run, 2).await;
    while let Ok(shard) = coordinator.claim_next_available(tenant, run, worker).await {
        let (cursor, op) = (CursorUpdate::initial(), OpId::from_raw(2));
        coordinator.complete(tenant, &shard.lease, cursor, op).await.unwrap();
    }
    coordinator.complete_run(tenant, run, OpId::from_raw(3)).await.unwrap();
}
