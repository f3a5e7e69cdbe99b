//! Crashes during registrations and deletions on real stores: the next process resumes.

use shardwright_contracts::{CursorSemantics, OpId, RunId, TenantId};
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

use crate::flaky::{FlakyStore, Reaction};
use crate::support::{Manifest, ManualClock, audit, block_on, exact, over};

const TENANT: TenantId = TenantId::from_bytes([7; TenantId::SIZE]);
const SHARDS: usize = 12;
/// So small that everything needs many commits.
const FEW_WRITES: StoreLimits =
    StoreLimits { expectations: 16, writes: 9, key_bytes: 1_024, bytes: 1 << 20 };
const AT_ONCE: Retention = Retention { ended_ms: 1, initializing_ms: u64::MAX };

/// Runs a call until the store stops answering, and then drops it like a crash.
async fn until_unanswered<S: Store, T>(
    store: &FlakyStore<S>,
    call: impl Future<Output = T>,
) -> Option<T> {
    let (unanswered, received) = oneshot::channel();
    let mut unanswered = Some(unanswered);
    store.on_fault(move || _ = unanswered.take().map(|sender| sender.send(())));
    tokio::select! {
        biased;
        done = call => Some(done),
        _ = received => None,
    }
}

async fn register(engine: &StoredCoordinator, run: RunId) {
    let manifest = Manifest::of(SHARDS);
    let config = RunConfig::try_new(CursorSemantics::Completed, 10_000, None).unwrap();
    let op = OpId::from_raw(1);
    engine.create_run_with_shards(TENANT, run, config, &manifest.inputs(), op).await.unwrap();
}

async fn collect(engine: &StoredCoordinator) {
    engine.collect_into(AT_ONCE, &mut Vec::new()).await.unwrap();
}

/// Crashes at every commit of a registration and of a deletion.
async fn crash_at_every_commit<S: Store + Clone>(store: S) {
    let (clock, keys) = (ManualClock::default(), RunKeys::new(Keyspace::new("test/").unwrap()));
    clock.advance(1_000_000);
    let (mut deaths, mut runs) = ([0, 0], 0);
    for reaction in [Reaction::HangBefore, Reaction::HangAfter] {
        for skip in 0.. {
            runs += 1;
            let run = RunId::from_raw(runs);
            let flaky = FlakyStore::with_limits(store.clone(), FEW_WRITES);
            let dying = over(flaky.clone(), &clock, exact()).await;
            flaky.always_after(skip, reaction);
            let registered = until_unanswered(&flaky, register(&dying, run)).await;
            clock.advance(2_000);
            let next = over(store.clone(), &clock, exact()).await;
            register(&next, run).await;
            let listed = next.list_shards(TENANT, run, ShardFilter::all()).await.unwrap();
            assert_eq!(listed.len(), SHARDS, "after a death at commit {skip}");
            audit::audit(&store, &keys).await;
            next.cancel_run(TENANT, run, OpId::from_raw(2)).await.unwrap();
            audit::audit(&store, &keys).await;
            clock.advance(2_000);
            flaky.always_after(skip, reaction);
            let collected = until_unanswered(&flaky, collect(&dying)).await;
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
    assert!(deaths.iter().all(|deaths| *deaths > 8), "too few crashes: {deaths:?}");
}

#[test]
fn crashes_on_the_file_store_are_resumed() {
    let folder = TempDir::new().unwrap();
    let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
    block_on(crash_at_every_commit(store));
}

#[test]
fn crashes_on_etcd_are_resumed() {
    block_on(async {
        let cluster = EtcdCluster::single().await.unwrap();
        crash_at_every_commit(EtcdStore::connect(cluster.options()).await.unwrap()).await;
    });
}
