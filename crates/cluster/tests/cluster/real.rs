//! Clusters on a file store and on a real etcd, in the real environment.

use std::num::NonZeroU32;
use std::time::Duration;

use shardwright_cluster::{
    Cluster, ClusterName, ClusterOptions, Layout, NodeMembership, Serving, ShardClaimError,
};
use shardwright_contracts::ShardId;
use shardwright_engine::TokioEnv;
use shardwright_placement::ops::ClaimRefused;
use shardwright_placement::seed_format::{SeedKey, SeedShard};
use shardwright_placement::{ClusterConfig, ShardCount};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::testing::EtcdCluster;
use shardwright_store::{ScanFrom, Store, StoreRange};

use crate::site::{node, shard};
use crate::support::block_on;

const SHARDS: u32 = 64;

fn options(layout: Layout) -> ClusterOptions {
    let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(SHARDS).unwrap());
    config.cluster_state_stability_duration_ms = 0;
    let options = ClusterOptions::new(ClusterName::parse("real").unwrap(), config);
    let (session_ttl, session_margin) = (Duration::from_secs(3), Duration::from_secs(1));
    ClusterOptions { layout, session_ttl, session_margin, ..options }
}

async fn open<S: Store + Clone>(store: &S, layout: &Layout) -> Cluster {
    let env = TokioEnv::current().unwrap();
    Cluster::open(store.clone(), env, options(layout.clone())).await.unwrap()
}

type Member = NodeMembership;

async fn join<S: Store + Clone>(store: &S, layout: &Layout, address: &str) -> Member {
    open(store, layout).await.join(node(address), NonZeroU32::MIN).await.unwrap()
}

/// Waits for a view that satisfies a condition.
async fn until(cluster: &Cluster, is_so: impl Fn(&shardwright_cluster::ClusterView) -> bool) {
    let mut changes = cluster.changes();
    let waiting = changes.wait_for(|view| is_so(view));
    tokio::time::timeout(Duration::from_secs(30), waiting).await.unwrap().unwrap();
}

/// Two nodes place, claim, move, pin and release shards. One leaves, and the other takes over.
async fn run_cluster<S: Store + Clone>(store: S, layout: Layout) {
    let a = join(&store, &layout, "a:1").await;
    let b = join(&store, &layout, "b:1").await;
    until(&a.cluster(), |view| view.members.len() == 2).await;
    a.try_lead().await.unwrap();
    assert!(b.try_lead().await.is_err());
    let step = a.lead_step(None).await.unwrap();
    assert_eq!(step.moved, SHARDS as usize);
    until(&b.cluster(), |view| view.map.iter().all(|info| info.target.is_some())).await;
    let of = |parity| (0..u64::from(SHARDS)).filter(move |n| n % 2 == parity).map(shard);
    let (of_a, of_b): (Vec<ShardId>, Vec<ShardId>) = (of(0).collect(), of(1).collect());
    for (member, shards) in [(&a, &of_a), (&b, &of_b)] {
        let claimed = member.claim(shards).await;
        assert!(claimed.iter().all(|(_, claimed)| claimed.is_ok()), "{claimed:?}");
    }
    a.cluster().wait_until_ready(Duration::from_secs(30)).await.unwrap();
    let operator = open(&store, &layout).await;
    operator.move_shard(shard(0), &node("b:1")).await.unwrap();
    operator.pin(shard(1), None).await.unwrap();
    until(&b.cluster(), |view| {
        view.map.info(shard(0)).unwrap().target == Some(&node("b:1"))
            && view.map.info(shard(1)).unwrap().flags.is_pinned()
    })
    .await;
    let refused = b.claim(&[shard(0)]).await.remove(0).1;
    assert_eq!(refused, Err(ShardClaimError::Refused(ClaimRefused::HeldByMember(node("a:1")))));
    until(&a.cluster(), |view| view.map.info(shard(0)).unwrap().target == Some(&node("b:1"))).await;
    let fence = a.cluster().view().map.info(shard(0)).unwrap().fence.unwrap();
    let why = shardwright_placement::ops::ReleaseReason::Moved;
    let release = shardwright_cluster::ShardRelease { shard: shard(0), fence, objects: 0, why };
    a.release(&[release]).await.remove(0).1.unwrap();
    assert!(b.claim(&[shard(0)]).await.remove(0).1.unwrap() > fence);
    a.leave().await.unwrap();
    until(&b.cluster(), |view| view.members.len() == 1).await;
    b.try_lead().await.unwrap();
    let step = b.lead_step(None).await.unwrap();
    assert_eq!(step.moved, of_a.len() - 1);
    let claimed = b.claim(&of_a[1..]).await;
    assert!(claimed.iter().all(|(_, claimed)| claimed.is_ok()), "{claimed:?}");
    assert_eq!(b.cluster().view().held_by(b.holder()).count(), SHARDS as usize);
    assert!(matches!(b.serving(), Serving::Until(_)));
}

#[test]
fn cluster_works_in_a_folder() {
    for layout in [Layout::Native, Layout::Seed { prefix: "/goverse".to_owned() }] {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let store = FileStore::open(folder.path(), FileOptions::default()).unwrap();
            run_cluster(store, layout).await;
        });
    }
}

#[test]
fn cluster_works_on_etcd() {
    block_on(async {
        let etcd = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(etcd.options()).await.unwrap();
        run_cluster(store, Layout::Native).await;
    });
}

#[test]
fn text_cluster_works_on_etcd() {
    block_on(async {
        let etcd = EtcdCluster::single().await.unwrap();
        // With this namespace the keys are exactly those of existing clusters.
        let store = EtcdStore::connect(etcd.options().namespace("/")).await.unwrap();
        let layout = Layout::Seed { prefix: "goverse".to_owned() };
        run_cluster(store.clone(), layout).await;
        let range = StoreRange::prefix("goverse/");
        let entries = store.scan(&range, ScanFrom::first(1_000)).await.unwrap().entries;
        let mut shards = 0;
        for (key, found) in entries {
            let value = String::from_utf8(found.value.to_vec()).unwrap();
            match SeedKey::parse("goverse", &key.to_string()).unwrap() {
                SeedKey::Shard(number) => {
                    shards += 1;
                    let pinned = if number.as_raw() == 1 { ",f=pinned" } else { "" };
                    assert_eq!(value, format!("b:1,b:1{pinned}"));
                    assert_eq!(SeedShard::parse(&value).unwrap().to_string(), value);
                }
                SeedKey::Node(address) | SeedKey::Gate(address) => {
                    assert_eq!(value, address.as_str());
                }
                SeedKey::Leader => assert_eq!(value, "b:1"),
            }
        }
        assert_eq!(shards, SHARDS);
    });
}

#[test]
fn dead_node_is_replaced_on_etcd_after_its_session() {
    block_on(async {
        let etcd = EtcdCluster::single().await.unwrap();
        let store = EtcdStore::connect(etcd.options()).await.unwrap();
        let a = join(&store, &Layout::Native, "a:1").await;
        let watcher = open(&store, &Layout::Native).await;
        let earlier = a.holder().incarnation;
        drop(a);
        let again = join(&store, &Layout::Native, "a:1").await;
        assert!(again.holder().incarnation > earlier);
        until(&watcher, |view| view.members.is_live(again.holder().borrowed())).await;
    });
}
