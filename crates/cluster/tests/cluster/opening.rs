use std::time::Duration;

use shardwright_cluster::{
    Cluster, ClusterName, ClusterOpenError, ClusterOptions, FoundCluster, InfraError, Layout,
    OptionsError, TextShards, find_cluster,
};
use shardwright_contracts::FenceEpoch;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::setup::raise_generation;
use shardwright_placement::{JoinRefused, ShardCount, ShardHash};
use shardwright_store::AnyStore;

use crate::site::{SHARDS, Site, node, shard};

fn open(site: &Site, options: ClusterOptions) -> Result<Cluster, ClusterOpenError> {
    site.run(Cluster::open(site.store.clone(), site.world.clone(), options))
}

fn with_count(site: &Site, count: u32) -> ClusterOptions {
    let mut options = site.options();
    options.config.sharding.num_shards = ShardCount::try_new(count).unwrap();
    options
}

/// Callers run these futures as tasks.
#[test]
fn all_futures_are_send() {
    fn moves<T: Send>(value: T) -> T {
        value
    }
    let site = Site::new();
    let cluster = moves(site.cluster());
    let a = site.join(&cluster, "a:1");
    let (to, shards) = (node("a:1"), [shard(0)]);
    drop(moves(Cluster::open(site.store.clone(), site.world.clone(), site.options())));
    drop(moves(cluster.join(to.clone(), std::num::NonZeroU32::MIN)));
    drop(moves(cluster.join_gate(to.clone())));
    drop(moves(cluster.refresh()));
    drop(moves(cluster.move_shard(shards[0], &to)));
    drop(moves(cluster.pin(shards[0], None)));
    drop(moves(cluster.unpin(shards[0])));
    drop(moves(cluster.set_frozen(true)));
    drop(moves(cluster.set_drained(&to, true)));
    drop(moves(a.claim(&shards)));
    drop(moves(a.release(&[])));
    drop(moves(a.try_lead()));
    drop(moves(a.lead_step(None)));
    drop(moves(a.resign()));
    drop(moves(a.set_leaving(true)));
    drop(moves(a.leave()));
}

#[test]
fn first_process_creates_the_cluster() {
    let site = Site::new();
    let first = site.cluster();
    assert_eq!(first.view().map.num_shards().get(), SHARDS);
    let made = site.store.revision();
    site.cluster();
    assert_eq!(site.store.revision(), made);
}

#[test]
fn process_with_another_sharding_is_refused() {
    for site in [Site::new(), Site::text()] {
        site.cluster();
        let error = open(&site, with_count(&site, 8_192)).unwrap_err();
        assert!(matches!(error, ClusterOpenError::Join(JoinRefused::NumShards { .. })), "{error}");
    }
    let site = Site::new();
    site.cluster();
    let mut options = site.options();
    options.config.sharding.hash = ShardHash::Avalanche64;
    let error = open(&site, options).unwrap_err();
    assert!(matches!(error, ClusterOpenError::Join(JoinRefused::Hash { .. })), "{error}");
}

#[test]
fn text_clusters_use_one_hash() {
    let site = Site::text();
    let mut options = site.options();
    options.config.sharding.hash = ShardHash::Avalanche64;
    let refused = ClusterOpenError::Options(OptionsError::TextHash(ShardHash::Avalanche64));
    // Also where nothing is stored yet.
    assert_eq!(open(&site, options.clone()).unwrap_err(), refused);
    assert!(site.stored("").is_empty());
    site.cluster();
    assert_eq!(open(&site, options).unwrap_err(), refused);
}

#[test]
fn process_with_another_format_is_refused() {
    let (site, other) = (Site::new(), Site::text());
    other.cluster();
    let plan = other.stored("shardwright/text/%2fgoverse/plan").remove(0).1;
    site.put("shardwright/cluster/test/plan", plan);
    let error = open(&site, site.options()).unwrap_err();
    let text = "the cluster is stored as text, but this process expects records";
    assert_eq!(error.to_string(), text);
}

/// Other programs write the keys of their shards one by one, in any order.
#[test]
fn text_keys_prove_a_minimum_number_of_shards() {
    let site = Site::text();
    site.put(&format!("/goverse/shard/{}", SHARDS / 2), "n1:1,");
    site.put(&format!("/goverse/shard/{SHARDS}"), "n1:1,");
    let error = open(&site, site.options()).unwrap_err();
    let at_least = ShardCount::try_new(SHARDS + 1).unwrap();
    let ours = ShardCount::try_new(SHARDS).unwrap();
    assert_eq!(error, ClusterOpenError::MoreShards { at_least, ours });
    let found =
        || site.run(find_cluster(&AnyStore::new(site.store.clone()), &site.options())).unwrap();
    let text = |is_whole| Some(FoundCluster::Text(TextShards { at_least, is_whole }));
    assert_eq!(found(), text(false));
    for shard in 0..SHARDS {
        site.put(&format!("/goverse/shard/{shard}"), "n1:1,");
    }
    assert_eq!(found(), text(true));
    assert!(site.stored("shardwright/text/").is_empty(), "a refused process writes no plan");
    // More keys may follow, so a configured number of shards takes precedence.
    let options = with_count(&site, SHARDS * 2);
    let opened = open(&site, options.clone()).unwrap();
    assert_eq!(opened.view().map.num_shards().get(), SHARDS * 2);
    let Some(FoundCluster::Decided(plan)) = found() else { panic!("{:?}", found()) };
    assert_eq!(plan.sharding, options.config.sharding, "the configured sharding is stored");
    let error = open(&site, with_count(&site, SHARDS + 1)).unwrap_err();
    assert!(matches!(error, ClusterOpenError::Join(JoinRefused::NumShards { .. })), "{error}");
}

#[test]
fn open_existing_creates_nothing() {
    for site in [Site::new(), Site::text()] {
        let look = || {
            let looked =
                Cluster::open_existing(site.store.clone(), site.world.clone(), site.options());
            site.run(looked)
        };
        assert_eq!(look().unwrap_err(), ClusterOpenError::NotThere);
        assert_eq!(
            site.run(find_cluster(&AnyStore::new(site.store.clone()), &site.options())),
            Ok(None)
        );
        assert!(site.stored("").is_empty());
        if site.layout != Layout::Native {
            for number in 0..SHARDS {
                site.put(&format!("/goverse/shard/{number}"), "n1:1,n1:1");
            }
            let found = site
                .run(find_cluster(&AnyStore::new(site.store.clone()), &site.options()))
                .unwrap();
            let at_least = ShardCount::try_new(SHARDS).unwrap();
            assert_eq!(found, Some(FoundCluster::Text(TextShards { at_least, is_whole: true })));
            let before = site.store.revision();
            let seen = look().unwrap();
            assert_eq!(seen.view().map.info(shard(3)).unwrap().target, Some(&node("n1:1")));
            assert_eq!(seen.status().readiness.unclaimed, SHARDS, "the cluster has no members");
            assert_eq!(site.store.revision(), before);
        }
        site.cluster();
        let made = site.store.revision();
        assert!(look().is_ok());
        assert_eq!(site.store.revision(), made);
    }
}

#[test]
fn text_cluster_is_identified_by_its_prefix() {
    let site = Site::text();
    let cluster = site.cluster();
    let renamed = |count| {
        let name = ClusterName::parse("other").unwrap();
        open(&site, ClusterOptions { name, ..with_count(&site, count) })
    };
    let error = renamed(SHARDS * 2).unwrap_err();
    assert!(matches!(error, ClusterOpenError::Join(JoinRefused::NumShards { .. })), "{error}");
    let other = renamed(SHARDS).unwrap();
    site.run(cluster.set_frozen(true)).unwrap();
    assert!(other.view().map.header().frozen);
}

#[test]
fn invalid_options_are_refused() {
    let site = Site::new();
    let refused = |change: &dyn Fn(&mut ClusterOptions)| {
        let mut options = site.options();
        change(&mut options);
        open(&site, options).unwrap_err()
    };
    let margin = |margin| refused(&move |options| options.session_margin = margin);
    assert_eq!(margin(Duration::ZERO), ClusterOpenError::Options(OptionsError::Margin));
    assert_eq!(margin(Duration::from_secs(5)), ClusterOpenError::Options(OptionsError::Margin));
    let none = refused(&|options| options.commits_in_flight = 0);
    assert_eq!(none, ClusterOpenError::Options(OptionsError::NoCommits));
    let mixed = refused(&|options| {
        options.layout = Layout::Seed { prefix: "shardwright/cluster/test".to_owned() };
    });
    assert_eq!(mixed, ClusterOpenError::Options(OptionsError::Mixed));
    let config = refused(&|options| options.config.min_quorum = 0);
    assert!(matches!(config, ClusterOpenError::Options(OptionsError::Config(_))));
    assert!(site.stored("").is_empty());
}

#[test]
fn unreadable_plan_record_prevents_opening() {
    let site = Site::new();
    site.put("shardwright/cluster/test/plan", b"nonsense".to_vec());
    let error = open(&site, site.options()).unwrap_err();
    let ClusterOpenError::Store(shardwright_engine::setup::StoreOpenError::Store(error)) = error
    else {
        panic!("{error}");
    };
    assert!(matches!(error, InfraError::Corrupt { .. }), "{error}");
}

#[test]
fn fences_from_before_a_restore_are_stale() {
    let site = Site::new();
    let before = site.node("a:1");
    site.place(&before);
    assert!(site.claim(&before, 0).unwrap() > FenceEpoch::INITIAL);
    let keys = Keyspace::default();
    assert_eq!(site.run(raise_generation(&AnyStore::new(site.store.clone()), &keys)).unwrap(), 1);
    let cluster = site.cluster();
    assert_eq!(cluster.fence_floor().as_raw(), 1 << 32);
    let after = site.join(&cluster, "b:1");
    site.run(cluster.move_shard(shard(0), &node("b:1"))).unwrap();
    // The former holder is a member but holds nothing, so no call is routed there.
    assert_eq!(crate::site::holder_of(&cluster, 0), None);
    let routed = cluster.explain("shard#0/x").unwrap();
    assert!(routed.contains("b:1 is about to claim it"), "{routed}");
    assert_eq!(site.claim(&after, 0).unwrap().as_raw(), 1 << 32);
}

#[test]
fn rejoin_after_a_restore_raises_the_fence_floor() {
    let site = Site::new();
    let cluster = site.cluster();
    let before = site.join(&cluster, "a:1");
    site.place(&before);
    site.claim(&before, 0).unwrap();
    let keys = Keyspace::default();
    assert_eq!(site.run(raise_generation(&AnyStore::new(site.store.clone()), &keys)).unwrap(), 1);
    assert_eq!(cluster.fence_floor(), FenceEpoch::INITIAL);
    site.run(before.leave()).unwrap();
    let again = site.join(&cluster, "a:1");
    assert_eq!(cluster.fence_floor().as_raw(), 1 << 32);
    assert_eq!(crate::site::holder_of(&cluster, 0), None);
    assert_eq!(site.claim(&again, 0).unwrap().as_raw(), 1 << 32);
}
