use std::time::Duration;

use shardwright_cluster::AdminError;
use shardwright_placement::MoveReason;
use shardwright_placement::ops::{FreezeRefused, PinRefused, ReassignRefused};

use crate::flaky::{Reaction, YieldingStore};
use crate::site::{GUARD_MS, InMemory, SHARDS, Site, is_unknown, node, shard, target_of};

#[test]
fn operator_moves_pins_and_freezes_without_the_leader() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.place(&a);
        let operator = site.cluster();
        let to_b = node("b:1");
        let moved = site.run(operator.move_shard(shard(0), &to_b)).unwrap();
        assert_eq!(moved.as_raw(), 2);
        assert_eq!(target_of(&b.cluster(), 0).as_deref(), Some("b:1"));
        let again = site.run(operator.move_shard(shard(0), &to_b));
        assert_eq!(again, Err(AdminError::Refused(ReassignRefused::AlreadyThere(to_b.clone()))));
        let nowhere = site.run(operator.move_shard(shard(0), &node("x:1")));
        assert_eq!(nowhere, Err(AdminError::Refused(ReassignRefused::NotAMember(node("x:1")))));
        site.run(operator.pin(shard(2), Some(&to_b))).unwrap();
        site.run(operator.pin(shard(3), None)).unwrap();
        let view = a.cluster().view();
        let info = view.map.info(shard(2)).unwrap();
        assert!(info.flags.is_pinned() && info.target == Some(&to_b));
        assert!(view.map.info(shard(3)).unwrap().flags.is_pinned());
        let pinned = site.run(operator.move_shard(shard(2), &node("a:1")));
        assert_eq!(pinned, Err(AdminError::Refused(ReassignRefused::Pinned)));
        site.run(operator.unpin(shard(2))).unwrap();
        let unpinned = site.run(operator.unpin(shard(2)));
        assert_eq!(unpinned, Err(AdminError::Refused(PinRefused::NotPinned)));
        site.run(operator.set_frozen(true)).unwrap();
        assert!(a.cluster().view().map.header().frozen);
        let frozen = site.run(operator.set_frozen(true));
        assert_eq!(frozen, Err(AdminError::Refused(FreezeRefused::AlreadyFrozen)));
        site.run(operator.set_frozen(false)).unwrap();
        assert!(!a.cluster().view().map.header().frozen);
    }
}

/// The leader places shards while an operator pins and moves. Both writes must survive.
#[test]
fn operator_and_leader_keep_each_others_writes() {
    for seed in 0..150 {
        let site = if seed % 2 == 0 { Site::new() } else { Site::text() };
        let yielding = || site.cluster_over(YieldingStore(site.store.clone()));
        let leader = site.join(&yielding(), "a:1");
        let other = site.join(&yielding(), "b:1");
        let operator = yielding();
        site.pass(Duration::from_millis(GUARD_MS));
        site.run(leader.try_lead()).unwrap();
        let lead = async {
            for _ in 0..3 {
                leader.lead_step(None).await.unwrap();
            }
        };
        let ask = async {
            // Placed first by the operator, or by the leader and moved then.
            operator.pin(shard(4), Some(&node("b:1"))).await.unwrap();
            operator.pin(shard(5), Some(&node("a:1"))).await.unwrap();
            operator.set_frozen(true).await.unwrap();
            operator.unpin(shard(5)).await.unwrap();
        };
        site.race(seed, lead, ask);
        let view = site.run(other.cluster().refresh()).unwrap();
        assert!(view.map.header().frozen, "seed {seed}");
        assert!(view.map.iter().all(|info| info.target.is_some()), "seed {seed}");
        let info = view.map.info(shard(4)).unwrap();
        assert_eq!(info.target, Some(&node("b:1")), "seed {seed}");
        assert!(info.flags.is_pinned(), "seed {seed}");
        let info = view.map.info(shard(5)).unwrap();
        assert_eq!(info.target, Some(&node("a:1")), "seed {seed}");
        assert!(!info.flags.is_pinned(), "seed {seed}");
    }
}

#[test]
fn lost_answer_of_an_operator_request_is_resolved() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        let _b = site.node("b:1");
        site.place(&a);
        let (operator, store) = site.flaky();
        store.next([Reaction::LoseAnswer]);
        site.run(operator.move_shard(shard(0), &node("b:1"))).unwrap();
        assert_eq!(target_of(&operator, 0).as_deref(), Some("b:1"));
        store.next([Reaction::LoseAnswer]);
        assert!(site.run(operator.set_drained(&node("a:1"), true)).unwrap());
    }
}

#[test]
fn overtaken_operator_request_is_unknown_not_refused() {
    let site = Site::new();
    let a = site.node("a:1");
    let _b = site.node("b:1");
    site.place(&a);
    let (operator, store) = site.flaky();
    // The move is stored, its answer is lost, and another process writes the next version.
    let (world, other) = (site.world.clone(), site.cluster());
    store.next([Reaction::LoseAnswer]);
    store.on_fault(move || {
        world.block_on(other.refresh()).unwrap();
        world.block_on(other.set_frozen(true)).unwrap();
    });
    let moved = site.run(operator.move_shard(shard(0), &node("b:1")));
    let Err(AdminError::Store(error)) = moved else { panic!("{moved:?}") };
    assert!(is_unknown(&error));
    assert_eq!(target_of(&operator, 0).as_deref(), Some("b:1"));
}

#[test]
fn drained_node_is_emptied_and_stays_empty() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        site.run(site.cluster().set_drained(&node("b:1"), true)).unwrap();
        for _ in 0..20 {
            site.round(&[&a, &b]);
        }
        let view = a.cluster().view();
        assert_eq!(view.held_by(a.holder()).count(), SHARDS as usize);
        assert!(view.drained.contains(&node("b:1")));
        site.run(b.leave()).unwrap();
        let b = site.node("b:1");
        site.pass(Duration::from_millis(2 * GUARD_MS));
        for _ in 0..20 {
            site.round(&[&a, &b]);
        }
        assert_eq!(a.cluster().view().held_by(a.holder()).count(), SHARDS as usize);
        site.run(site.cluster().set_drained(&node("b:1"), false)).unwrap();
        site.settle(&[&a, &b]);
    }
}

#[test]
fn preview_reports_a_missing_claim_only_after_the_timeout() {
    let site = Site::new();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.settle(&[&a, &b]);
    let stuck = Duration::from_millis(site.options().config.stuck_after_ms);
    site.pass(2 * stuck);
    site.run(b.leave()).unwrap();
    let _b = site.node("b:1");
    let operator = site.cluster();
    let is_blamed = |operator: &InMemory| {
        let preview = operator.preview(None);
        preview.moves.iter().any(|one| matches!(one.reason, MoveReason::NotClaimed { .. }))
    };
    assert!(!is_blamed(&operator));
    site.pass(stuck);
    assert!(is_blamed(&operator));
}

#[test]
fn claim_timeout_starts_when_the_shard_is_released() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.settle(&[&a, &b]);
        let stuck = Duration::from_millis(site.options().config.stuck_after_ms);
        let operator = site.cluster();
        let is_blamed = || {
            let preview = operator.preview(None);
            preview.moves.iter().any(|one| matches!(one.reason, MoveReason::NotClaimed { .. }))
        };
        let moved = shard(0);
        site.run(operator.move_shard(moved, b.address())).unwrap();
        site.pass(2 * stuck);
        let fence = operator.view().map.info(moved).unwrap().fence.unwrap();
        site.release(&a, 0, fence).unwrap();
        site.run(operator.refresh()).unwrap();
        assert!(!is_blamed());
        // Other writes to the shard do not extend the timeout.
        site.run(operator.pin(moved, None)).unwrap();
        site.run(operator.unpin(moved)).unwrap();
        site.run(operator.refresh()).unwrap();
        assert!(!is_blamed());
        site.pass(stuck - Duration::from_millis(1));
        site.run(operator.refresh()).unwrap();
        assert!(!is_blamed());
        site.pass(Duration::from_millis(1));
        assert!(is_blamed());
    }
}

#[test]
fn preview_status_and_route_describe_the_cluster() {
    let site = Site::new();
    let (a, _b) = (site.node("a:1"), site.node("b:1"));
    site.pass(Duration::from_millis(GUARD_MS));
    let operator = site.cluster();
    let preview = operator.preview(None);
    assert_eq!(preview.moves[1].to_string(), "shard 1 moves to b:1: it has no node yet");
    assert_eq!(operator.view().map.header().version.as_raw(), 0);
    let lacks = site.run(operator.wait_until_ready(Duration::ZERO)).unwrap_err().lacks;
    assert_eq!(lacks.without_target, SHARDS);
    site.place(&a);
    site.claim(&a, 0).unwrap();
    let status = operator.status();
    assert_eq!(status.leader.as_ref(), Some(a.holder()));
    let counts: Vec<_> =
        status.nodes.iter().map(|node| (node.shards.held, node.shards.targeted)).collect();
    assert_eq!(counts, [(1, 8), (0, 8)]);
    assert_eq!((status.readiness.unclaimed, status.header.version.as_raw()), (15, 1));
    let explained = operator.explain("shard#0/x").unwrap();
    let expected = "the id names shard 0 of 16; a:1 serves it; its fence is 2";
    assert_eq!(explained, expected);
    assert!(operator.explain("shard#16/x").is_err());
}
