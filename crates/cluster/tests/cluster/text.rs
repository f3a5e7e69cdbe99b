//! A whole cluster in the text of existing ones.

use std::time::Duration;

use shardwright_placement::seed_format::{SeedKey, SeedShard};

use crate::site::{GUARD_MS, SHARDS, Site, TTL, holder_of, node, shard, target_of};

const PREFIX: &str = "/goverse";

/// All keys and values below the prefix, parsed.
fn read(site: &Site) -> Vec<(SeedKey, String)> {
    let read = |(key, value): (String, Vec<u8>)| {
        let value = String::from_utf8(value).unwrap();
        let key = SeedKey::parse(PREFIX, &key).unwrap();
        match &key {
            SeedKey::Shard(_) => assert_eq!(SeedShard::parse(&value).unwrap().to_string(), value),
            SeedKey::Node(address) | SeedKey::Gate(address) => assert_eq!(value, address.as_str()),
            SeedKey::Leader => assert_eq!(node(&value).as_str(), value),
        }
        (key, value)
    };
    site.stored(&format!("{PREFIX}/")).into_iter().map(read).collect()
}

fn value(site: &Site, number: u64) -> String {
    let key = SeedKey::Shard(shard(number));
    read(site).into_iter().find(|(found, _)| *found == key).unwrap().1
}

#[test]
fn values_of_the_specification_are_written() {
    let site = Site::text();
    let (one, two) = (site.node("node1:47001"), site.node("node2:47001"));
    let _gate = site.run(site.cluster().join_gate(node("gate1:49000"))).unwrap();
    site.place(&one);
    site.claim(&one, 0).unwrap();
    site.run(one.cluster().pin(shard(2), None)).unwrap();
    site.claim(&one, 2).unwrap();
    assert_eq!(value(&site, 0), "node1:47001,node1:47001");
    assert_eq!(value(&site, 1), "node2:47001,");
    assert_eq!(value(&site, 2), "node1:47001,node1:47001,f=pinned");
    let others: Vec<_> =
        read(&site).into_iter().filter(|(key, _)| !matches!(key, SeedKey::Shard(_))).collect();
    let expected = [
        (SeedKey::Gate(node("gate1:49000")), "gate1:49000"),
        (SeedKey::Leader, "node1:47001"),
        (SeedKey::Node(node("node1:47001")), "node1:47001"),
        (SeedKey::Node(node("node2:47001")), "node2:47001"),
    ];
    assert_eq!(others, expected.map(|(key, value)| (key, value.to_owned())));
    drop(two);
}

#[test]
fn values_of_the_specification_are_read() {
    let site = Site::text();
    site.put("/goverse/shard/0", "node1:47001,node1:47001");
    site.put("/goverse/shard/1", "node2:47001,");
    site.put("/goverse/shard/2", "node1:47001,node1:47001,f=pinned");
    site.put(&format!("/goverse/shard/{}", SHARDS - 1), ",");
    let cluster = site.cluster();
    let view = cluster.view();
    let info = |number| view.map.info(shard(number)).unwrap();
    assert_eq!(info(0).target, Some(&node("node1:47001")));
    // The former holder is not a member, so the shard can be claimed.
    let holder = info(0).current.unwrap();
    assert!(holder.address == &node("node1:47001") && !view.members.is_live(holder));
    assert_eq!((info(1).target, info(1).current), (Some(&node("node2:47001")), None));
    assert!(info(2).flags.is_pinned());
    assert!(view.quarantine.is_empty());
    let one = site.node("node1:47001");
    let fence = site.claim(&one, 0).unwrap();
    assert_eq!(value(&site, 0), "node1:47001,node1:47001");
    assert!(fence > info(0).fence.unwrap());
}

#[test]
fn revision_of_the_key_is_the_fence() {
    let site = Site::text();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.place(&a);
    let fence = site.claim(&a, 0).unwrap();
    assert_eq!(fence.as_raw(), site.store.revision().get());
    // A new target raises the fence while the shard is held. The holder can still release it.
    site.run(b.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
    assert_eq!(value(&site, 0), "b:1,a:1");
    let risen = a.cluster().view().map.info(shard(0)).unwrap().fence.unwrap();
    assert!(risen > fence);
    site.release(&a, 0, fence).unwrap();
    assert_eq!(value(&site, 0), "b:1,");
    assert!(site.claim(&b, 0).unwrap() > risen);
}

#[test]
fn rejoined_node_holds_no_shards_of_its_earlier_incarnation() {
    let site = Site::text();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.place(&a);
    site.claim(&a, 0).unwrap();
    site.claim(&b, 1).unwrap();
    drop(a);
    site.pass(TTL);
    assert_eq!(value(&site, 0), "a:1,a:1");
    let again = site.node("a:1");
    assert_eq!(value(&site, 0), "a:1,");
    assert_eq!(again.cluster().view().held_by(again.holder()).count(), 0);
    assert_eq!(holder_of(&again.cluster(), 1), Some(b.holder().clone()));
    assert!(site.claim(&again, 0).is_ok());
}

/// A node of another program rejoins without releasing its earlier claims.
#[test]
fn claims_from_before_a_join_are_not_the_nodes_own() {
    let site = Site::text();
    let b = site.node("b:1");
    site.put("/goverse/shard/0", "a:1,a:1");
    site.put("/goverse/nodes/a:1", "a:1");
    let view = b.cluster().view();
    let holder = view.map.info(shard(0)).unwrap().current.unwrap().to_holder();
    assert!(view.members.get("a:1").is_some() && !view.members.is_live(holder.borrowed()));
    site.put("/goverse/shard/0", "a:1,a:1");
    let view = b.cluster().view();
    assert!(view.members.is_live(view.map.info(shard(0)).unwrap().current.unwrap()));
}

#[test]
fn every_stored_value_parses_at_any_time() {
    let site = Site::text();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.settle(&[&a, &b]);
    read(&site);
    site.run(a.cluster().pin(shard(3), Some(&node("b:1")))).unwrap();
    site.run(a.cluster().set_frozen(true)).unwrap();
    site.run(a.cluster().set_drained(&node("b:1"), true)).unwrap();
    for _ in 0..10 {
        site.round(&[&a, &b]);
        read(&site);
    }
    assert_eq!(value(&site, 3), "a:1,a:1,f=pinned,f=home=b:1");
    site.run(b.set_leaving(true)).unwrap();
    site.run(b.leave()).unwrap();
    let shards = read(&site).into_iter().filter(|(key, _)| matches!(key, SeedKey::Shard(_)));
    assert_eq!(shards.count(), SHARDS as usize);
}

/// Text does not store the time of a move, and a new leader has not observed it.
#[test]
fn new_leader_times_out_a_node_that_does_not_claim() {
    let site = Site::text();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.settle(&[&a, &b]);
    let moved = (0..u64::from(SHARDS)).find(|number| value(&site, *number) == "a:1,a:1").unwrap();
    site.run(a.cluster().move_shard(shard(moved), &node("b:1"))).unwrap();
    site.round(&[&a]);
    assert_eq!(value(&site, moved), "b:1,");
    let c = site.node("c:1");
    site.run(a.leave()).unwrap();
    site.round(&[&c]);
    assert_eq!(target_of(&c.cluster(), moved).unwrap(), "b:1");
    site.pass(Duration::from_secs(60));
    site.round(&[&c]);
    assert_eq!(target_of(&c.cluster(), moved).unwrap(), "c:1");
}

/// Claims and targets share a key, and neither overwrites the other.
#[test]
fn racing_targets_and_claims_are_both_kept() {
    for seed in 0..100 {
        let site = Site::text();
        let yielding = || site.cluster_over(crate::flaky::YieldingStore(site.store.clone()));
        let (a, b) = (site.join(&yielding(), "a:1"), site.join(&yielding(), "b:1"));
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(a.try_lead()).unwrap();
        site.run(a.lead_step(None)).unwrap();
        let mine: Vec<_> = (0..u64::from(SHARDS)).step_by(2).map(shard).collect();
        let operator = yielding();
        let (to, pins) = (node("b:1"), async {
            for number in &mine {
                operator.pin(*number, None).await.unwrap();
            }
        });
        let (claimed, ()) = site.race(seed, a.claim(&mine), pins);
        assert!(claimed.iter().all(|(_, claimed)| claimed.is_ok()), "seed {seed}");
        for number in mine {
            assert_eq!(value(&site, number.as_raw()), "a:1,a:1,f=pinned", "seed {seed}");
        }
        assert_eq!(b.holder().address, to);
    }
}
