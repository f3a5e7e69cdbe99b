//! Creating clusters.

use std::sync::Arc;

use shardwright_cluster::{
    Cluster, ClusterCreateError, ClusterDeleteError, ClusterOpenError, ClusterOptions,
};
use shardwright_contracts::FenceEpoch;
use shardwright_placement::{JoinRefused, ShardCount, ShardHash};

use crate::site::{Outdated, SHARDS, Site, node, shard};

pub(crate) fn create(site: &Site, options: &ClusterOptions) -> Result<(), ClusterCreateError> {
    site.run(Cluster::create(site.store.clone(), options))
}

pub(crate) fn delete(site: &Site) -> Result<(), ClusterDeleteError> {
    site.run(Cluster::delete(site.store.clone(), &site.options()))
}

pub(crate) fn with_count(site: &Site, count: u32) -> ClusterOptions {
    let mut options = site.options();
    options.config.sharding.num_shards = ShardCount::try_new(count).unwrap();
    options
}

/// A node claims all shards, one of them often, and leaves. Returns the highest fence.
pub(crate) fn use_and_leave(site: &Site) -> FenceEpoch {
    let a = site.node("a:1");
    site.settle(&[&a]);
    for _ in 0..10 {
        let fence = a.cluster().view().map.info(shard(7)).unwrap().fence.unwrap();
        site.release(&a, 7, fence).unwrap();
        site.claim(&a, 7).unwrap();
    }
    site.run(a.leave()).unwrap();
    let view = site.cluster().view();
    view.map.iter().filter_map(|info| info.fence).max().unwrap()
}

/// The keys of the cluster.
pub(crate) fn keys(site: &Site) -> Vec<String> {
    let below = |prefix| site.stored(prefix).into_iter().map(|(key, _)| key);
    let prefixes = ["shardwright/cluster/", "shardwright/text/", "/goverse/"];
    prefixes.into_iter().flat_map(below).collect()
}

#[test]
fn a_created_cluster_has_the_numbers_of_its_creator() {
    for site in [Site::new(), Site::text()] {
        create(&site, &with_count(&site, 64)).unwrap();
        assert_eq!(keys(&site).len(), 1, "only the plan: {:?}", keys(&site));
        let again = create(&site, &with_count(&site, 128)).unwrap_err();
        assert_eq!(again.to_string(), "the cluster exists, with 64 shards by fnv1a32");
        let opened =
            site.run(Cluster::open(site.store.clone(), site.world.clone(), with_count(&site, 128)));
        let refused = opened.unwrap_err();
        let (cluster, ours) = (ShardCount::try_new(64).unwrap(), ShardCount::try_new(128).unwrap());
        assert_eq!(refused, ClusterOpenError::Join(JoinRefused::NumShards { cluster, ours }));
    }
}

#[test]
fn two_creators_agree_on_one_plan() {
    for seed in 0..32 {
        let site = Site::new();
        let (small, large) = (with_count(&site, 16), with_count(&site, 32));
        let (one, other) = site.race(
            seed,
            Cluster::create(site.store.clone(), &small),
            Cluster::create(site.store.clone(), &large),
        );
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    }
}

/// Every fence is above all fences of deleted clusters, also in a process that opened one of those.
#[test]
fn a_process_joins_a_cluster_that_was_created_again() {
    for site in [Site::new(), Site::text()] {
        let opened = site.cluster();
        let last = use_and_leave(&site);
        assert_eq!(delete(&site), Ok(()));
        create(&site, &site.options()).unwrap();
        let a = site.join(&opened, "a:1");
        site.place(&a);
        assert!(site.claim(&a, 3).unwrap() > last);
    }
}

#[test]
fn an_outdated_read_refuses_no_join() {
    for site in [Site::new(), Site::text()] {
        let before = site.store.revision().get();
        let outdated = Arc::new(Outdated::default());
        let opened = site.cluster_over(site.store.client(Arc::clone(&outdated)));
        outdated.set(before.max(1));
        site.join(&opened, "a:1");
        site.run(opened.join_gate(node("gate:1"))).unwrap();
    }
}

#[test]
fn a_text_cluster_of_another_program_can_be_given_its_numbers() {
    let site = Site::text();
    for shard in 0..SHARDS {
        site.put(&format!("/goverse/shard/{shard}"), "n1:1,");
    }
    let fewer = create(&site, &with_count(&site, SHARDS / 2)).unwrap_err();
    let fewer = matches!(fewer, ClusterCreateError::Open(ClusterOpenError::MoreShards { .. }));
    assert!(fewer);
    create(&site, &site.options()).unwrap();
    let mut options = site.options();
    options.config.sharding.hash = ShardHash::Avalanche64;
    let refused = create(&site, &options).unwrap_err().to_string();
    let why = "a cluster that is stored as text hashes ids by fnv1a32, not by avalanche64";
    assert_eq!(refused, why);
}
