use std::sync::Arc;
use std::time::Duration;

use shardwright_cluster::ShardClaimError;
use shardwright_contracts::ShardId;
use shardwright_placement::ShardCount;
use shardwright_placement::ops::ClaimRefused;
use shardwright_store::memory::{MemoryOptions, MemoryStore};

use crate::site::{GUARD_MS, Outdated, SHARDS, Site, TTL, holder_of, node, shard, target_of};

#[test]
fn views_follow_other_processes_and_never_go_back() {
    let site = Site::new();
    let watcher = site.cluster();
    let mut changes = watcher.changes();
    let mut last = (0, shardwright_store::Revision::ZERO);
    let a = site.node("a:1");
    site.place(&a);
    for number in 0..u64::from(SHARDS) {
        site.claim(&a, number).unwrap();
        assert!(changes.has_changed().unwrap());
        let view = Arc::clone(&changes.borrow_and_update());
        assert!((view.generation, view.revision) > last);
        last = (view.generation, view.revision);
    }
    assert!(watcher.view().readiness().is_ready());
}

#[test]
fn a_shard_has_the_node_that_serves_it() {
    let site = Site::new();
    let (watcher, a) = (site.cluster(), site.node("a:1"));
    site.place(&a);
    assert_eq!(watcher.node_for_shard(shard(3)), Ok(None));
    site.claim(&a, 3).unwrap();
    assert_eq!(watcher.node_for_shard(shard(3)), Ok(Some(node("a:1"))));
    assert!(watcher.node_for_shard(shard(SHARDS.into())).is_err());
    site.end_session_of("a:1");
    site.run(async {});
    assert_eq!(watcher.node_for_shard(shard(3)), Ok(None), "its node is not a member");
}

#[test]
fn each_part_has_its_last_change() {
    let site = Site::new();
    let watcher = site.cluster();
    let a = site.node("a:1");
    let before = watcher.view().changed;
    site.run(a.try_lead()).unwrap();
    let after = watcher.view();
    assert_eq!(after.changed.leader, after.generation);
    assert_eq!((after.changed.map, after.changed.members), (before.map, before.members));
}

#[test]
fn concurrent_commits_become_one_view() {
    let site = Site::new();
    let watcher = site.cluster();
    let a = site.node("a:1");
    let _b = site.node("b:1");
    site.pass(Duration::from_millis(GUARD_MS));
    site.run(a.try_lead()).unwrap();
    let before = watcher.view();
    site.run(a.lead_step(None)).unwrap();
    let placed = watcher.view();
    assert_eq!(placed.generation, before.generation + 1);
    assert!(placed.map.iter().all(|info| info.target.is_some()));
    // Claims are separate commits, and the watch holds them back.
    site.store.hold_watches();
    let shards: Vec<ShardId> = (0..u64::from(SHARDS)).step_by(2).map(shard).collect();
    site.run(a.claim(&shards));
    assert_eq!(watcher.view().generation, placed.generation);
    site.store.release_watches();
    site.world.run_tasks();
    let claimed = watcher.view();
    assert_eq!(claimed.held_by(a.holder()).count(), shards.len());
    assert_eq!(claimed.generation, placed.generation + 1);
}

#[test]
fn own_writes_are_in_the_view_at_once() {
    let site = Site::new();
    let a = site.node("a:1");
    site.place(&a);
    site.store.hold_watches();
    let fence = site.claim(&a, 0).unwrap();
    assert_eq!(holder_of(&a.cluster(), 0), Some(a.holder().clone()));
    site.release(&a, 0, fence).unwrap();
    assert_eq!(holder_of(&a.cluster(), 0), None);
    let _b = site.node("b:1");
    site.run(a.cluster().refresh()).unwrap();
    site.run(a.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
    assert_eq!(target_of(&a.cluster(), 0).as_deref(), Some("b:1"));
    // The watch delivers older changes later.
    site.store.release_watches();
    site.world.run_tasks();
    assert_eq!(target_of(&a.cluster(), 0).as_deref(), Some("b:1"));
    assert_eq!(holder_of(&a.cluster(), 0), None);
}

#[test]
fn stale_reads_do_not_revert_the_view() {
    for site in [Site::new(), Site::text()] {
        let outdated = Arc::new(Outdated::default());
        let cluster = site.cluster_over(site.store.client(Arc::clone(&outdated)));
        let a = site.join(&cluster, "a:1");
        site.place(&a);
        let before = site.store.revision().get();
        let fence = site.claim(&a, 0).unwrap();
        outdated.set(before);
        let view = site.run(cluster.refresh()).unwrap();
        assert_eq!(view.held_by(a.holder()).collect::<Vec<_>>(), [(shard(0), fence)]);
        // The refusal is decided again on a read that is older than the known state.
        let again = site.claim(&a, 0);
        assert_eq!(again, Err(ShardClaimError::Refused(ClaimRefused::AlreadyHeld(fence))));
        // Commits based on stale reads conflict until reads are current.
        outdated.set(0);
        site.release(&a, 0, fence).unwrap();
    }
}

#[test]
fn watch_with_a_gap_lists_again() {
    for site in [Site::new(), Site::text()] {
        let watcher = site.cluster();
        let a = site.node("a:1");
        let b = site.node("b:1");
        site.place(&a);
        site.claim(&a, 0).unwrap();
        site.run(a.try_lead()).unwrap();
        // The watch misses the next changes, and they are compacted.
        site.store.hold_watches();
        site.claim(&a, 2).unwrap();
        site.run(a.cluster().move_shard(shard(1), &node("a:1"))).unwrap();
        site.run(a.resign()).unwrap();
        site.run(b.leave()).unwrap();
        site.store.break_watches();
        site.store.compact(site.store.revision());
        site.store.release_watches();
        site.world.run_tasks();
        let view = watcher.view();
        assert_eq!(view.held_by(a.holder()).count(), 2);
        assert_eq!(target_of(&watcher, 1).as_deref(), Some("a:1"));
        assert_eq!((view.leader.clone(), view.members.len()), (None, 1));
        assert_eq!(view.revision, site.store.revision());
        // The watch continues from there.
        site.claim(&a, 1).unwrap();
        assert_eq!(watcher.view().held_by(a.holder()).count(), 3);
    }
}

#[test]
fn slow_watcher_catches_up() {
    let mut site = Site::new();
    let clock = Arc::new(site.world.clock().clone());
    let options = MemoryOptions { watch_capacity: 2, ..MemoryOptions::default() };
    site.store = MemoryStore::with_options(clock, options);
    let watcher = site.cluster();
    let a = site.node("a:1");
    site.place(&a);
    let shards: Vec<ShardId> = (0..u64::from(SHARDS)).map(shard).collect();
    site.run(a.claim(&shards));
    assert_eq!(watcher.view().held_by(a.holder()).count(), shards.len());
}

#[test]
fn all_shards_of_a_large_cluster_are_claimed() {
    let site = Site::new();
    let mut options = site.options();
    options.config.sharding.num_shards = ShardCount::DEFAULT;
    let open = || {
        let (store, world) = (site.store.clone(), site.world.clone());
        site.run(shardwright_cluster::Cluster::open(store, world, options.clone())).unwrap()
    };
    let (cluster, watcher) = (open(), open());
    let a = site.join(&cluster, "a:1");
    site.pass(Duration::from_millis(GUARD_MS));
    site.run(a.try_lead()).unwrap();
    site.run(a.lead_step(None)).unwrap();
    let shards: Vec<ShardId> = ShardCount::DEFAULT.shards().collect();
    let claimed = site.run(a.claim(&shards));
    assert!(claimed.iter().all(|(_, claimed)| claimed.is_ok()));
    assert!(watcher.view().readiness().is_ready());
    // Thousands of commits, and far fewer views.
    assert!(watcher.view().generation < 500, "{}", watcher.view().generation);
}

#[test]
fn dropped_cluster_is_not_followed() {
    let site = Site::new();
    let a = site.node("a:1");
    let cluster = a.cluster();
    drop(cluster);
    // The membership alone keeps the view up to date.
    let b = site.node("b:1");
    assert_eq!(a.cluster().view().members.len(), 2);
    drop((a, b));
    site.pass(TTL * 2);
    assert!(site.cluster().view().members.is_empty());
}
