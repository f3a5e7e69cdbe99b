use std::time::Duration;

use shardwright_cluster::{Layout, LeadError, LeaderStepError};
use shardwright_placement::ops::{LeadRefused, LeaderRefused};
use shardwright_placement::{PlanNote, ShardInfo, TargetVersion};
use shardwright_store::StoreLimits;

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::site::{GUARD_MS, SHARDS, Site, TTL, holder_of, node, shard, target_of};

#[test]
fn one_node_leads_until_it_resigns_or_leaves() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        assert_eq!(site.run(a.resign()), Ok(false));
        site.run(a.try_lead()).unwrap();
        site.run(a.try_lead()).unwrap();
        assert_eq!(b.cluster().view().live_leader(), Some(a.holder()));
        let led = LeadError::Refused(LeadRefused::LedByMember(node("a:1")));
        assert_eq!(site.run(b.try_lead()), Err(led));
        assert_eq!(site.run(a.resign()), Ok(true));
        site.run(b.try_lead()).unwrap();
        assert_eq!(a.cluster().view().live_leader(), Some(b.holder()));
        drop(b);
        site.pass(TTL);
        assert_eq!(a.cluster().view().live_leader(), None);
        site.run(a.try_lead()).unwrap();
    }
}

#[test]
fn restarted_leader_does_not_lead() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        site.run(a.try_lead()).unwrap();
        site.run(a.leave()).unwrap();
        let again = site.node("a:1");
        assert_eq!(again.cluster().view().live_leader(), None);
        let refused = site.run(again.lead_step(None)).unwrap_err();
        assert!(
            matches!(refused, LeaderStepError::Refused(LeaderRefused::NotLeading(_))),
            "{refused}"
        );
        site.run(again.try_lead()).unwrap();
        assert_eq!(again.cluster().view().live_leader(), Some(again.holder()));
    }
}

#[test]
fn shards_are_placed_in_turn_after_the_guard() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.run(b.try_lead()).unwrap();
        let step = site.run(b.lead_step(None)).unwrap();
        assert!(matches!(step.plan.notes[..], [PlanNote::Guarded { .. }]));
        assert_eq!((step.moved, step.version), (0, TargetVersion::NONE));
        site.pass(Duration::from_millis(GUARD_MS));
        let step = site.run(b.lead_step(None)).unwrap();
        assert_eq!((step.moved, step.version.as_raw()), (SHARDS as usize, 1));
        for number in 0..u64::from(SHARDS) {
            let expected = if number % 2 == 0 { "a:1" } else { "b:1" };
            assert_eq!(target_of(&a.cluster(), number).as_deref(), Some(expected));
        }
        let step = site.run(b.lead_step(None)).unwrap();
        assert_eq!((step.moved, step.version.as_raw()), (0, 1));
    }
}

#[test]
fn replaced_leader_writes_nothing() {
    for site in [Site::new(), Site::text()] {
        let (cluster, cut) = site.cuttable();
        let old = site.join(&cluster, "a:1");
        let b = site.node("b:1");
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(old.try_lead()).unwrap();
        cut.set(true);
        site.pass(TTL);
        site.run(b.try_lead()).unwrap();
        // The old leader reaches the store again, with a stale view.
        site.store.hold_watches();
        cut.set(false);
        assert_eq!(site.run(old.lead_step(None)), Err(LeaderStepError::Over));
        site.store.release_watches();
        assert_eq!(site.run(b.cluster().refresh()).unwrap().map.header().version.as_raw(), 0);
    }
}

#[test]
fn replaced_leader_that_is_still_a_member_writes_nothing() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(a.try_lead()).unwrap();
        site.store.hold_watches();
        site.delete(match site.layout {
            Layout::Native => "shardwright/cluster/test/leader",
            Layout::Seed { .. } => "/goverse/leader",
        });
        site.run(b.try_lead()).unwrap();
        assert_eq!(a.cluster().view().live_leader(), Some(a.holder()));
        let leads = LeaderStepError::Refused(LeaderRefused::NotLeading(node("b:1")));
        assert_eq!(site.run(a.lead_step(None)), Err(leads));
        assert_eq!(site.cluster().view().map.header().version, TargetVersion::NONE);
    }
}

#[test]
fn retried_leader_step_knows_recently_joined_targets() {
    for site in [Site::new(), Site::text()] {
        let (a, _b) = (site.node("a:1"), site.node("b:1"));
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(a.try_lead()).unwrap();
        site.run(a.lead_step(None)).unwrap();
        site.run(a.cluster().set_drained(&node("b:1"), true)).unwrap();
        // A node joins and gets a shard. The leader's view has neither.
        site.store.hold_watches();
        let _c = site.node("c:1");
        site.run(site.cluster().move_shard(shard(0), &node("c:1"))).unwrap();
        assert!(site.run(a.lead_step(None)).unwrap().moved > 0);
        let view = site.cluster().view();
        assert_eq!(view.map.info(shard(0)).unwrap().target, Some(&node("c:1")));
    }
}

#[test]
fn leader_without_a_membership_writes_nothing() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(a.try_lead()).unwrap();
        // No other node leads, and the leader's view still has its membership.
        site.store.hold_watches();
        site.end_session_of("a:1");
        assert_eq!(site.run(a.lead_step(None)), Err(LeaderStepError::Over));
        assert_eq!(site.cluster().view().map.header().version, TargetVersion::NONE);
    }
}

#[test]
fn late_targets_are_refused_once_another_node_leads() {
    let site = Site::new();
    let (cluster, store) = site.flaky();
    let a = site.join(&cluster, "a:1");
    let b = site.node("b:1");
    site.pass(Duration::from_millis(GUARD_MS));
    site.run(a.try_lead()).unwrap();
    store.always_after(0, Reaction::Late);
    assert!(site.run(a.lead_step(None)).is_err());
    drop((a, cluster));
    site.pass(TTL * 2);
    site.run(b.try_lead()).unwrap();
    assert_eq!(site.run(store.deliver_late()), 0);
}

#[test]
fn unknown_targets_are_resolved_by_a_read() {
    for site in [Site::new(), Site::text()] {
        let (cluster, store) = site.flaky();
        let a = site.join(&cluster, "a:1");
        site.pass(Duration::from_millis(GUARD_MS));
        store.next([Reaction::LoseAnswer]);
        site.run(a.try_lead()).unwrap();
        store.next([Reaction::LoseAnswer, Reaction::LoseAnswer]);
        let step = site.run(a.lead_step(None)).unwrap();
        assert_eq!((step.moved, step.version.as_raw()), (SHARDS as usize, 1));
        store.next([Reaction::LoseAnswer]);
        assert_eq!(site.run(a.resign()), Ok(true));
    }
}

#[test]
fn oversized_targets_are_written_as_several_versions() {
    let site = Site::new();
    let mut options = site.options();
    options.config.sharding.num_shards = shardwright_placement::ShardCount::DEFAULT;
    let limits = StoreLimits { expectations: 8, writes: 10, key_bytes: 256, bytes: 20_000 };
    let store = FlakyStore::with_limits(site.store.clone(), limits);
    let opened = shardwright_cluster::Cluster::open(store.clone(), site.world.clone(), options);
    let cluster = site.run(opened).unwrap();
    let a = site.join(&cluster, "a:1");
    site.pass(Duration::from_millis(GUARD_MS));
    site.run(a.try_lead()).unwrap();
    let before = store.commits();
    let step = site.run(a.lead_step(None)).unwrap();
    assert_eq!(step.moved, 8_192);
    let commits = (store.commits() - before) as u64;
    assert!((8..64).contains(&commits), "{commits}");
    assert_eq!(step.version.as_raw(), commits);
    let view = site.run(cluster.refresh()).unwrap();
    assert!(view.map.iter().all(|info| info.target == Some(&node("a:1"))));
    assert_eq!(view.map.header().version, step.version);
}

#[test]
fn cluster_places_balances_and_survives_a_loss() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        let held = |node: &crate::site::Node, by: &crate::site::Node| {
            by.cluster().view().held_by(node.holder()).count()
        };
        assert_eq!((held(&a, &b), held(&b, &b)), (8, 8));
        let c = site.node("c:1");
        let d = site.node("d:1");
        site.settle(&[&a, &b, &c, &d]);
        assert_eq!((held(&a, &b), held(&d, &b)), (4, 4));
        drop(a);
        site.pass(TTL);
        site.settle(&[&b, &c, &d]);
        // A leaving node hands over all its shards.
        site.run(b.set_leaving(true)).unwrap();
        for _ in 0..40 {
            site.round(&[&c, &d, &b]);
        }
        assert_eq!(held(&b, &c), 0);
        assert_eq!((held(&c, &c), held(&d, &c)), (8, 8));
        site.run(b.leave()).unwrap();
        assert_eq!(holder_of(&c.cluster(), 0).map(|one| one.address != node("b:1")), Some(true));
    }
}

/// Two nodes lead alternately. Each write follows the stored version.
#[test]
fn alternating_leaders_lose_no_write() {
    for seed in 0..60 {
        let site = if seed % 2 == 0 { Site::new() } else { Site::text() };
        let yielding = || site.cluster_over(YieldingStore(site.store.clone()));
        let (a, b) = (site.join(&yielding(), "a:1"), site.join(&yielding(), "b:1"));
        site.pass(Duration::from_millis(GUARD_MS));
        let lead = async |node: &crate::site::Node| {
            let mut moved = 0;
            for _ in 0..4 {
                if node.try_lead().await.is_ok() {
                    moved += node.lead_step(None).await.map_or(0, |step| step.moved);
                    node.resign().await.unwrap();
                }
            }
            moved
        };
        let (by_a, by_b) = site.race(seed, lead(&a), lead(&b));
        assert!(by_a + by_b >= SHARDS as usize, "seed {seed}: {by_a} and {by_b}");
        let view = site.run(a.cluster().refresh()).unwrap();
        for info in view.map.iter() {
            let expected = if info.shard.as_raw() % 2 == 0 { "a:1" } else { "b:1" };
            assert_eq!(info.target, Some(&node(expected)), "seed {seed}");
        }
        assert_eq!(view.map.info(shard(0)).unwrap().current, None);
    }
}

#[test]
fn node_that_does_not_claim_is_probed_with_one_shard() {
    for site in [Site::new(), Site::text()] {
        let site = Site { hasty: true, ..site };
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        let c = site.node("c:1");
        let targeted = || {
            let view = a.cluster().view();
            let is_its = |info: &ShardInfo<'_>| info.target == Some(c.address());
            view.map.iter().filter(is_its).count()
        };
        site.round(&[&a, &b]);
        assert!(targeted() > 1);
        site.pass(Duration::from_secs(60));
        site.round(&[&a, &b]);
        assert_eq!(targeted(), 0);
        site.pass(Duration::from_secs(59));
        site.round(&[&a, &b]);
        assert_eq!(targeted(), 0);
        site.pass(Duration::from_secs(1));
        site.round(&[&a, &b]);
        assert_eq!(targeted(), 1);
        // The node claims, and soon gets its share.
        site.settle(&[&a, &b, &c]);
    }
}
