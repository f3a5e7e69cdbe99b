//! Creating and deleting clusters.

use shardwright_cluster::{
    Cluster, ClusterCreateError, ClusterDeleteError, ClusterOpenError, ClusterOptions, JoinError,
};
use shardwright_placement::{JoinRefused, ShardCount, ShardHash};

use crate::site::{SHARDS, Site, node};

fn create(site: &Site, options: &ClusterOptions) -> Result<(), ClusterCreateError> {
    site.run(Cluster::create(site.store.clone(), options))
}

fn delete(site: &Site) -> Result<(), ClusterDeleteError> {
    site.run(Cluster::delete(site.store.clone(), &site.options()))
}

fn with_count(site: &Site, count: u32) -> ClusterOptions {
    let mut options = site.options();
    options.config.sharding.num_shards = ShardCount::try_new(count).unwrap();
    options
}

/// The keys of the cluster.
fn keys(site: &Site) -> Vec<String> {
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

#[test]
fn deleting_a_cluster_leaves_no_record() {
    for site in [Site::new(), Site::text()] {
        assert_eq!(delete(&site), Err(ClusterDeleteError::NotThere));
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        site.run(a.cluster().set_drained(&node("c:1"), true)).unwrap();
        site.run(a.cluster().set_frozen(true)).unwrap();
        for one in [a, b] {
            site.run(one.leave()).unwrap();
        }
        assert!(keys(&site).len() > SHARDS as usize);
        assert_eq!(delete(&site), Ok(()));
        assert!(keys(&site).is_empty(), "{:?}", keys(&site));
        create(&site, &with_count(&site, 2 * SHARDS)).unwrap();
    }
}

#[test]
fn a_cluster_with_members_is_not_deleted() {
    for site in [Site::new(), Site::text()] {
        let (a, gate) = (site.node("a:1"), site.run(site.cluster().join_gate(node("gate:1"))));
        let gate = gate.unwrap();
        let before = keys(&site);
        let refused = delete(&site).unwrap_err();
        assert_eq!(refused.to_string(), "the cluster has members: a:1, gate:1");
        assert_eq!(keys(&site), before);
        site.run(a.leave()).unwrap();
        assert_eq!(delete(&site), Err(ClusterDeleteError::Members(vec![node("gate:1")])));
        site.run(gate.leave()).unwrap();
        assert_eq!(delete(&site), Ok(()));
    }
}

#[test]
fn a_deleted_cluster_cannot_be_joined() {
    let site = Site::new();
    let opened = site.cluster();
    assert_eq!(delete(&site), Ok(()));
    let join = || site.run(opened.join(node("a:1"), std::num::NonZeroU32::MIN)).unwrap_err();
    assert_eq!(join(), JoinError::Deleted);
    let gate = site.run(opened.join_gate(node("gate:1"))).unwrap_err();
    assert_eq!(gate, JoinError::Deleted);
    create(&site, &with_count(&site, 2 * SHARDS)).unwrap();
    assert_eq!(join(), JoinError::Deleted, "its shards are not those of the new cluster");
    assert_eq!(delete(&site), Ok(()));
    create(&site, &site.options()).unwrap();
    site.join(&opened, "a:1");
}

#[test]
fn a_join_and_a_deletion_exclude_each_other() {
    let (mut joins, mut deletions) = (0, 0);
    for seed in 0..64 {
        let site = Site::new();
        let (opened, options) = (site.cluster(), site.options());
        let (joined, deleted) = site.race(
            seed,
            opened.join(node("a:1"), std::num::NonZeroU32::MIN),
            Cluster::delete(site.store.clone(), &options),
        );
        let has_plan = !site.stored("shardwright/cluster/test/plan").is_empty();
        match (joined, deleted) {
            (Ok(_member), Err(ClusterDeleteError::Members(_))) if has_plan => joins += 1,
            (Err(JoinError::Deleted), Ok(())) if !has_plan => deletions += 1,
            (joined, deleted) => panic!("{joined:?} {deleted:?} {has_plan}"),
        }
    }
    assert!(joins > 0 && deletions > 0, "{joins} {deletions}");
}

#[test]
fn nothing_is_created_over_the_rest_of_a_deleted_cluster() {
    let site = Site::new();
    let a = site.node("a:1");
    site.place(&a);
    site.run(a.leave()).unwrap();
    // A deletion that ended after its first commit.
    site.delete("shardwright/cluster/test/plan");
    let open = || {
        site.run(Cluster::open(site.store.clone(), site.world.clone(), site.options())).map(|_| ())
    };
    assert_eq!(open(), Err(ClusterOpenError::Remains));
    let created = create(&site, &site.options());
    assert_eq!(created, Err(ClusterCreateError::Open(ClusterOpenError::Remains)));
    assert_eq!(delete(&site), Ok(()));
    assert_eq!(open(), Ok(()));
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
