//! Whoever dies while it registers a run, or takes one away, on a real store: the next one goes on.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
};
use shardwright_coordination::{AsyncRunManagement, RunConfig, ShardFilter};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::keys::RunKeys;
use shardwright_runs::{Retention, StoredCoordinator};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{Store, StoreLimits};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::flaky::{Fate, Flaky};
use crate::support::{ManualClock, audit, block_on, exact, over};

const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);
const SHARDS: u64 = 12;
/// So little that everything needs many commits.
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };
const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: u64::MAX };

/// Lets a call go on until the store is silent, and then ends it like a process that dies.
async fn until_silent<S: Store, T>(store: &Flaky<S>, call: impl Future<Output = T>) -> Option<T> {
    let (silent, heard) = oneshot::channel();
    let mut silent = Some(silent);
    store.meanwhile(move || _ = silent.take().map(|silent| silent.send(())));
    tokio::select! {
        biased;
        done = call => Some(done),
        _ = heard => None,
    }
}

async fn register(engine: &StoredCoordinator, run: RunId) {
    let bounds: Vec<[String; 2]> =
        (0..SHARDS).map(|id| [format!("{id:03}"), format!("{:03}", id + 1)]).collect();
    let inputs: Vec<InitialShardInput<'_>> = bounds
        .iter()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start.as_bytes(), end.as_bytes(), b"meta"),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None).unwrap();
    let op = OpId::from_raw(1);
    engine.create_run_with_shards(TENANT, run, config, &inputs, op).await.unwrap();
}

async fn collect(engine: &StoredCoordinator) {
    engine.collect_into(AT_ONCE, &mut Vec::new()).await.unwrap();
}

/// Dies at every commit of a registration and of a collection.
async fn dies_everywhere<S: Store + Clone>(store: S) {
    let (clock, keys) = (ManualClock::default(), RunKeys::new(Keyspace::new("test/").unwrap()));
    clock.advance(1_000_000);
    let (mut deaths, mut runs) = ([0, 0], 0);
    for fate in [Fate::HangBefore, Fate::HangAfter] {
        for skip in 0.. {
            runs += 1;
            let run = RunId::from_raw(runs);
            let flaky = Flaky::with_limits(store.clone(), FEW_WRITES);
            let dying = over(flaky.clone(), &clock, exact()).await;
            flaky.henceforth(skip, fate);
            let registered = until_silent(&flaky, register(&dying, run)).await;
            clock.advance(2_000);
            let next = over(store.clone(), &clock, exact()).await;
            register(&next, run).await;
            let listed = next.list_shards(TENANT, run, ShardFilter::all()).await.unwrap();
            assert_eq!(listed.len() as u64, SHARDS, "after a death at commit {skip}");
            audit::audit(&store, &keys).await;
            next.cancel_run(TENANT, run, OpId::from_raw(2)).await.unwrap();
            clock.advance(2_000);
            flaky.henceforth(skip, fate);
            let collected = until_silent(&flaky, collect(&dying)).await;
            clock.advance(2_000);
            collect(&next).await;
            let left = audit::key_names(&store, &keys).await;
            assert!(left.iter().all(|key| key.contains("/meta/")), "commit {skip}: {left:?}");
            deaths[0] += usize::from(registered.is_none());
            deaths[1] += usize::from(collected.is_none());
            if registered.is_some() && collected.is_some() {
                break;
            }
        }
    }
    assert!(deaths.iter().all(|deaths| *deaths > 8), "there was to be much to die at: {deaths:?}");
}

#[test]
fn whoever_dies_on_the_store_in_a_folder_leaves_all_to_the_next() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    block_on(dies_everywhere(store));
}

#[test]
fn whoever_dies_on_etcd_leaves_all_to_the_next() {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        dies_everywhere(EtcdStore::connect(cluster.options()).await.unwrap()).await;
    });
}
