//! A damaged row of the file store affects only its subject.

use std::path::Path;

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, OpId, RunId, ShardId, ShardKey, TenantId, WorkerId,
};
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
    ClaimError, InfraError, RunConfig,
};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{FileCoordinator, Retention, RunAddress};
use shardwright_store::Key;

use crate::support::Manifest;

const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);
const RUN: RunId = RunId::from_raw(1);
const OTHER: RunId = RunId::from_raw(2);
const LEASE_MS: u64 = 600_000;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Runtime::new().unwrap().block_on(future)
}

fn shard(id: u64) -> ShardKey {
    ShardKey::new(RUN, ShardId::from_raw(id))
}

fn worker(id: u64) -> WorkerId {
    WorkerId::from_raw(id)
}

fn op(id: u64) -> OpId {
    OpId::from_raw(id)
}

async fn open(folder: &Path) -> FileCoordinator {
    FileCoordinator::in_folder(folder).await.unwrap()
}

async fn start(coordinator: &FileCoordinator, run: RunId, shards: usize) {
    let config = RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap();
    let manifest = Manifest::of(shards);
    let inputs = manifest.inputs();
    let started = coordinator.create_run_with_shards(TENANT, run, config, &inputs, op(1_000));
    started.await.unwrap();
}

/// Flips a bit of a stored value, like a faulty disk.
fn flip(folder: &Path, key: &Key) {
    let tool = rusqlite::Connection::open(folder.join("state.db")).unwrap();
    let sql = "SELECT value FROM entry WHERE key = ?1";
    let read = tool.query_row(sql, [key.as_bytes()], |row| row.get::<_, Vec<u8>>(0));
    let mut value = read.unwrap();
    *value.last_mut().unwrap() ^= 1;
    let sql = "UPDATE entry SET value = ?2 WHERE key = ?1";
    assert_eq!(tool.execute(sql, (key.as_bytes(), value)).unwrap(), 1);
}

#[test]
fn flipped_bit_disables_only_its_shard() {
    let keys = RunKeys::new(Keyspace::default());
    for (part, key) in [
        ("definition", keys.definition(TENANT, shard(2))),
        ("progress", keys.progress(TENANT, shard(2))),
        ("owner", keys.owner(TENANT, shard(2))),
    ] {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let holding = open(folder.path()).await;
            start(&holding, RUN, 5).await;
            start(&holding, OTHER, 1).await;
            holding.acquire_and_restore(TENANT, shard(2), worker(9)).await.unwrap();
            flip(folder.path(), &key);
            let coordinator = open(folder.path()).await;
            let acquired = coordinator.acquire_and_restore(TENANT, shard(2), worker(1)).await;
            let Err(AcquireError::BackendError(InfraError::Corrupt { message, .. })) = acquired
            else {
                panic!("{part}: {acquired:?}");
            };
            let named = format!("shard {}", shard(2).shard);
            assert!(message.contains(&named) && message.contains("written"), "{message}");
            for id in 0..4 {
                let claimed = coordinator.claim_next_available(TENANT, RUN, worker(id)).await;
                let lease = claimed.unwrap().lease;
                assert_ne!(lease.key(), shard(2), "{part}");
                let cursor = CursorUpdate::initial();
                coordinator.complete(TENANT, &lease, cursor, op(id)).await.unwrap();
            }
            let nothing = coordinator.claim_next_available(TENANT, RUN, worker(5)).await;
            assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{part}: {nothing:?}");
            coordinator.claim_next_available(TENANT, OTHER, worker(5)).await.unwrap();
        });
    }
}

#[test]
fn flipped_bit_of_an_advisory_record_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let keys = RunKeys::new(Keyspace::default());
    block_on(async {
        let holding = open(folder.path()).await;
        start(&holding, RUN, 2).await;
        let held = [0, 1].map(|id| holding.acquire_and_restore(TENANT, shard(id), worker(1)));
        let [first, second] = held;
        let (first, second) = (first.await.unwrap().lease, second.await.unwrap().lease);
        let nothing = holding.claim_next_available(TENANT, RUN, worker(2)).await;
        assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
        holding.request_split(TENANT, shard(0), worker(2), 600_000).await.unwrap();
        flip(folder.path(), &keys.waiting(TENANT, RUN, worker(2)));
        flip(folder.path(), &keys.split_request(TENANT, shard(0)));
        flip(folder.path(), &keys.requester(TENANT, RUN, worker(2)));
        flip(folder.path(), &keys.open(TENANT, shard(0)));
        flip(folder.path(), &keys.open(TENANT, shard(1)));
        // A new coordinator reads all records.
        let coordinator = open(folder.path()).await;
        let nothing = coordinator.claim_next_available(TENANT, RUN, worker(3)).await;
        assert!(matches!(nothing, Err(ClaimError::NoneAvailable(_))), "{nothing:?}");
        holding.release(TENANT, &second, op(1)).await.unwrap();
        let claimed = open(folder.path()).await.claim_next_available(TENANT, RUN, worker(4)).await;
        assert_eq!(claimed.unwrap().lease.key(), shard(1));
        coordinator.request_split(TENANT, shard(0), worker(3), 600_000).await.unwrap();
        let cursor = CursorUpdate::initial();
        holding.complete(TENANT, &first, cursor, op(2)).await.unwrap();
    });
}

#[test]
fn flipped_bit_of_a_run_does_not_affect_other_runs() {
    let folder = tempfile::tempdir().unwrap();
    block_on(async {
        let coordinator = open(folder.path()).await;
        start(&coordinator, RUN, 1).await;
        start(&coordinator, OTHER, 1).await;
        flip(folder.path(), &RunKeys::new(Keyspace::default()).run(TENANT, RUN));
        let other = RunAddress { tenant: TENANT, run: OTHER };
        let mut listed = Vec::new();
        coordinator.list_active_runs_into(&mut listed).await.unwrap();
        assert_eq!(listed, [other]);
        coordinator.cancel_run(TENANT, OTHER, op(1)).await.unwrap();
        let at_once = Retention { ended_ms: 0, initializing_ms: 0 };
        coordinator.collect_into(at_once, &mut listed).await.unwrap();
        assert_eq!(listed, [other]);
        let damaged = coordinator.get_run(TENANT, RUN).await;
        assert!(damaged.unwrap_err().to_string().contains("run"), "the damaged run is not named");
    });
}

#[test]
fn flipped_bit_of_a_key_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let keys = RunKeys::new(Keyspace::default());
    block_on(async {
        let coordinator = open(folder.path()).await;
        start(&coordinator, RUN, 1).await;
        let tool = rusqlite::Connection::open(folder.path().join("state.db")).unwrap();
        let (key, other) = (keys.open(TENANT, shard(0)), keys.open(TENANT, shard(1)));
        let sql = "UPDATE entry SET key = ?2 WHERE key = ?1";
        assert_eq!(tool.execute(sql, (key.as_bytes(), other.as_bytes())).unwrap(), 1);
        let claimed = open(folder.path()).await.claim_next_available(TENANT, RUN, worker(1)).await;
        let Err(ClaimError::BackendError(InfraError::Corrupt { message, .. })) = claimed else {
            panic!("{claimed:?}");
        };
        assert!(message.contains(&other.to_string()), "{message}");
    });
}
