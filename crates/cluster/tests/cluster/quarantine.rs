//! Unreadable records disable only what they describe.

use shardwright_cluster::{
    AdminError, ClusterKey, LeaderStepError, ShardClaimError, ShardReleaseError, Unreadable,
};
use shardwright_placement::PlanNote;

use crate::site::{Site, TTL, holder_of, node, shard, target_of};

const OWN: &str = "shardwright/cluster/test";

#[test]
fn unreadable_claim_disables_only_its_shard() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        site.place(&a);
        let fence = site.claim(&a, 0).unwrap();
        let key = match site.layout {
            shardwright_cluster::Layout::Native => {
                format!("{OWN}/claim/0000000000000000")
            }
            _ => "/goverse/shard/0".to_owned(),
        };
        let good = site.stored(&key)[0].1.clone();
        site.put(&key, b"\xff\x00nonsense".to_vec());
        let view = a.cluster().view();
        assert_eq!(view.quarantine[0].key, ClusterKey::Shard(shard(0)));
        assert_eq!(holder_of(&a.cluster(), 0), None);
        assert_eq!(site.claim(&a, 0), Err(ShardClaimError::Unreadable(shard(0))));
        assert_eq!(site.release(&a, 0, fence), Err(ShardReleaseError::Unreadable(shard(0))));
        assert!(site.claim(&a, 1).is_ok());
        // The leader does not move it.
        let step = site.run(a.lead_step(None)).unwrap();
        assert_eq!(step.moved, 0);
        site.put(&key, good);
        assert_eq!(holder_of(&a.cluster(), 0), Some(a.holder().clone()));
        assert!(a.cluster().view().quarantine.is_empty());
    }
}

/// The shard looks unclaimed and movable.
#[test]
fn unreadable_claim_does_not_block_balancing() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        let key = match site.layout {
            shardwright_cluster::Layout::Native => {
                format!("{OWN}/claim/0000000000000000")
            }
            _ => "/goverse/shard/0".to_owned(),
        };
        site.put(&key, b"\xff\x00nonsense".to_vec());
        let before = target_of(&a.cluster(), 0);
        let pass = |nodes: &[&crate::site::Node]| {
            for _ in 0..60 {
                site.pass(std::time::Duration::from_secs(5));
                site.round(nodes);
            }
        };
        pass(&[&a, &b]);
        let step = site.run(a.lead_step(None)).unwrap();
        assert_eq!(step.plan.moves, []);
        let [PlanNote::Unreadable { shards: 1, first }] = step.plan.notes[..] else {
            panic!("{:?}", step.plan.notes);
        };
        assert_eq!(first, shard(0));
        // A new node gets its share, and no other shard moves.
        let c = site.node("c:1");
        pass(&[&a, &b, &c]);
        let held = |one: &crate::site::Node| one.cluster().view().held_by(one.holder()).count();
        let (of_a, of_b, of_c) = (held(&a), held(&b), held(&c));
        assert_eq!(of_a + of_b + of_c, 15);
        assert!(
            [of_a, of_b, of_c].iter().all(|held| (4..=6).contains(held)),
            "{of_a} {of_b} {of_c}"
        );
        assert_eq!(target_of(&a.cluster(), 0), before);
    }
}

#[test]
fn unreadable_targets_are_not_overwritten() {
    let site = Site::new();
    let a = site.node("a:1");
    site.place(&a);
    site.claim(&a, 0).unwrap();
    let key = format!("{OWN}/chunk/0000000000000000");
    let good = site.stored(&key)[0].1.clone();
    site.put(&key, b"nonsense".to_vec());
    assert_eq!(target_of(&a.cluster(), 0), None);
    let step = site.run(a.lead_step(None)).unwrap();
    assert_eq!(step.moved, 0);
    let pinned = site.run(a.cluster().pin(shard(0), Some(&node("a:1"))));
    assert_eq!(pinned, Err(AdminError::Unreadable));
    assert_eq!(site.claim(&a, 1), Err(ShardClaimError::Unreadable(shard(1))));
    // A holder keeps its shard.
    assert_eq!(holder_of(&a.cluster(), 0), Some(a.holder().clone()));
    site.put(&key, good);
    assert!(site.claim(&a, 1).is_ok());
}

#[test]
fn unreadable_header_prevents_writes() {
    let site = Site::new();
    let a = site.node("a:1");
    site.place(&a);
    site.put(&format!("{OWN}/targets"), b"nonsense".to_vec());
    assert_eq!(site.run(a.lead_step(None)), Err(LeaderStepError::Unreadable));
    let frozen = site.run(a.cluster().set_frozen(false));
    assert_eq!(frozen, Err(AdminError::Unreadable));
    assert!(site.claim(&a, 0).is_ok());
}

#[test]
fn unreadable_member_keeps_its_shards() {
    let site = Site::new();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.place(&a);
    site.claim(&b, 1).unwrap();
    let key = format!("{OWN}/member/b:1");
    site.put(&key, b"nonsense".to_vec());
    let view = a.cluster().view();
    assert_eq!(view.members.len(), 1);
    assert_eq!(view.quarantine[0].key, ClusterKey::Member(node("b:1")));
    assert!(matches!(view.quarantine[0].why, Unreadable::Record(_)));
    site.run(a.cluster().move_shard(shard(1), &node("a:1"))).unwrap();
    assert_eq!(site.claim(&a, 1), Err(ShardClaimError::HolderUnreadable(node("b:1"))));
    assert!(site.claim(&a, 0).is_ok());
}

#[test]
fn unreadable_leader_is_replaced() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        let key = match site.layout {
            shardwright_cluster::Layout::Native => format!("{OWN}/leader"),
            _ => "/goverse/leader".to_owned(),
        };
        site.put(&key, b"no such node\xff".to_vec());
        assert_eq!(a.cluster().view().leader, None);
        assert_eq!(a.cluster().view().quarantine.len(), 1);
        site.run(a.try_lead()).unwrap();
        assert_eq!(a.cluster().view().live_leader(), Some(a.holder()));
        assert!(a.cluster().view().quarantine.is_empty());
    }
}

#[test]
fn unreadable_gates_and_marks_are_quarantined() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        let (gate, own) = match site.layout {
            shardwright_cluster::Layout::Native => (format!("{OWN}/gate/g:1"), OWN),
            _ => ("/goverse/gates/g:1".to_owned(), "shardwright/text/%2fgoverse"),
        };
        site.put(&gate, b"other:1".to_vec());
        site.put(&format!("{own}/drain/a:1"), b"nonsense".to_vec());
        site.put(&format!("{own}/stranger"), b"nonsense".to_vec());
        let view = a.cluster().view();
        let noted: Vec<_> = view.quarantine.iter().map(|one| one.key.clone()).collect();
        assert_eq!(noted, [ClusterKey::Drain(node("a:1")), ClusterKey::Gate(node("g:1"))]);
        assert!(view.gates.is_empty());
        // The presence of a mark is enough.
        assert!(view.members.get("a:1").unwrap().draining);
        site.pass(TTL);
        assert!(a.may_serve());
    }
}

#[test]
fn unknown_shards_are_quarantined_until_deleted() {
    let site = Site::text();
    let a = site.node("a:1");
    site.put("/goverse/shard/16", b"a:1,".to_vec());
    let view = a.cluster().view();
    assert!(matches!(view.quarantine[0].why, Unreadable::Shard(_)));
    site.place(&a);
    site.delete("/goverse/shard/16");
    assert_eq!(*a.cluster().view().quarantine, []);
}

#[test]
fn unknown_claims_and_chunks_are_quarantined() {
    let site = Site::new();
    let a = site.node("a:1");
    site.place(&a);
    site.claim(&a, 0).unwrap();
    for (kind, beyond, key) in [
        ("claim", "0000000000000010", ClusterKey::Shard(shard(16))),
        ("chunk", "0000000000000001", ClusterKey::TargetChunk(1)),
    ] {
        let good = site.stored(&format!("{OWN}/{kind}/0000000000000000"))[0].1.clone();
        let beyond = format!("{OWN}/{kind}/{beyond}");
        site.put(&beyond, good);
        let view = a.cluster().view();
        assert_eq!(view.quarantine.iter().map(|one| &one.key).collect::<Vec<_>>(), [&key]);
        site.delete(&beyond);
        assert_eq!(*a.cluster().view().quarantine, [], "{beyond}");
    }
}
