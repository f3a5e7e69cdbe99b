use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use shardwright_cluster::{Cluster, JoinError, Serving, ShardClaimError};
use shardwright_contracts::{Env, LogicalTime};
use shardwright_placement::ops::ClaimRefused;
use shardwright_store::memory::{Before, HookedCall, Hooks};
use shardwright_store::{Fault, FaultKind};

use crate::site::{GUARD_MS, MARGIN, Site, TTL, holder_of, node};
use crate::support::world::World;

#[test]
fn node_is_visible_until_it_leaves() {
    let site = Site::new();
    let watcher = site.cluster();
    let a = site.node("a:1");
    assert_eq!(watcher.view().members.get("a:1").unwrap().holder, *a.holder());
    assert!(a.may_serve());
    site.run(a.leave()).unwrap();
    assert!(watcher.view().members.is_empty());
    assert_eq!(a.serving(), Serving::Ended);
    assert!(!a.may_serve());
}

#[test]
fn incarnations_of_a_node_are_distinct() {
    for site in [Site::new(), Site::text()] {
        let mut incarnations = Vec::new();
        for _ in 0..5 {
            let a = site.node("a:1");
            incarnations.push(a.holder().incarnation);
            site.run(a.leave()).unwrap();
        }
        assert!(incarnations.windows(2).all(|pair| pair[0] < pair[1]), "{incarnations:?}");
    }
}

#[test]
fn node_stops_serving_before_others_can_claim() {
    let site = Site::new();
    let watcher = site.cluster();
    let (cluster, cut) = site.cuttable();
    let before = site.monotonic();
    let a = site.join(&cluster, "a:1");
    assert_eq!(a.serving(), Serving::Until(before + TTL - MARGIN));
    site.pass(TTL * 3);
    assert!(a.may_serve());
    // From now on the store is unreachable.
    cut.set(true);
    site.pass(TTL - MARGIN);
    assert!(!a.may_serve());
    assert_eq!(watcher.view().members.len(), 1);
    assert!(matches!(a.serving(), Serving::Until(_)));
    site.pass(MARGIN);
    assert!(watcher.view().members.is_empty());
    cut.set(false);
    site.pass(TTL);
    assert_eq!(a.serving(), Serving::Ended);
}

/// A connection that is dead until a request has waited for its timeout.
struct DeadConnection {
    world: World,
    is_dead: AtomicBool,
}

impl DeadConnection {
    const PATIENCE: Duration = Duration::from_secs(2);
}

impl Hooks for DeadConnection {
    async fn before(&self, call: HookedCall<'_>) -> Before {
        if matches!(call, HookedCall::KeepAlive(_)) && self.is_dead.load(Ordering::SeqCst) {
            self.world.sleep(Self::PATIENCE).await;
            self.is_dead.store(false, Ordering::SeqCst);
            return Before::Refuse(Fault::new(FaultKind::Unreachable, "the connection was dead"));
        }
        Before::Go
    }
}

#[test]
fn unanswered_keep_alive_detects_a_dead_connection() {
    let site = Site::new();
    let connection =
        Arc::new(DeadConnection { world: site.world.clone(), is_dead: AtomicBool::new(false) });
    let store = site.store.client(Arc::clone(&connection));
    let mut options = site.options();
    // A keep-alive every second.
    (options.session_ttl, options.session_margin) =
        (Duration::from_secs(5), Duration::from_secs(1));
    let cluster = site.run(Cluster::open(store, site.world.clone(), options)).unwrap();
    let a = site.join(&cluster, "a:1");
    site.pass(TTL);
    connection.is_dead.store(true, Ordering::SeqCst);
    site.pass(TTL);
    assert!(!connection.is_dead.load(Ordering::SeqCst));
    assert!(a.may_serve());
}

#[test]
fn leaving_mark_of_an_earlier_incarnation_does_not_count() {
    let site = Site::new();
    let cluster = site.cluster();
    let a = site.join(&cluster, "a:1");
    site.run(a.set_leaving(true)).unwrap();
    // The process learns the end of its membership, and no other change.
    site.store.hold_watches();
    site.end_session_of("a:1");
    let joining = cluster.join(node("a:1"), NonZeroU32::MIN);
    let mut joining = std::pin::pin!(joining);
    assert!(site.world.run_until_stuck(joining.as_mut()).is_none());
    site.world.advance(1_000);
    let again = site.world.run_until_stuck(joining.as_mut()).unwrap().unwrap();
    site.run(again.set_leaving(true)).unwrap();
    assert!(site.cluster().view().members.get("a:1").unwrap().draining);
}

#[test]
fn node_that_reaches_the_store_in_time_serves_again() {
    let site = Site::new();
    let (cluster, cut) = site.cuttable();
    let a = site.join(&cluster, "a:1");
    cut.set(true);
    site.pass(TTL - MARGIN);
    assert!(!a.may_serve());
    cut.set(false);
    site.pass(Duration::from_secs(1));
    assert!(a.may_serve());
    site.pass(TTL * 2);
    assert!(a.may_serve());
}

#[test]
fn serving_deadline_counts_from_before_the_keep_alive() {
    let site = Site::new();
    let a = site.node("a:1");
    let mut changes = a.serving_changes();
    changes.borrow_and_update();
    let requested_at = site.monotonic();
    while !changes.has_changed().unwrap() {
        site.pass(Duration::from_millis(500));
    }
    let Serving::Until(until) = a.serving() else { panic!("the membership has ended") };
    assert!(until > requested_at + TTL - MARGIN && until <= site.monotonic() + TTL - MARGIN);
}

#[test]
fn lost_session_ends_the_membership_before_any_claim() {
    let site = Site::new();
    let (cluster, cut) = site.cuttable();
    let a = site.join(&cluster, "a:1");
    let b = site.node("b:1");
    site.pass(Duration::from_millis(GUARD_MS));
    site.run(b.try_lead()).unwrap();
    site.run(b.lead_step(None)).unwrap();
    let fence = site.claim(&a, 0).unwrap();
    assert_eq!(holder_of(&b.cluster(), 0), Some(a.holder().clone()));
    cut.set(true);
    for _ in 0..100 {
        site.pass(Duration::from_millis(500));
        site.run(b.lead_step(None)).unwrap();
        let claimed = site.claim(&b, 0);
        // The previous holder has stopped serving before the claim succeeds.
        if let Ok(next) = claimed {
            assert!(!a.may_serve());
            assert!(next > fence);
            cut.set(false);
            site.pass(TTL);
            assert_eq!(a.serving(), Serving::Ended);
            assert_eq!(site.claim(&a, 1), Err(ShardClaimError::Over));
            return;
        }
    }
    panic!("no node claimed the shard of a node that was cut off");
}

#[test]
fn rejoining_node_waits_for_its_earlier_incarnation() {
    for site in [Site::new(), Site::text()] {
        let first = site.node("a:1");
        let earlier = first.holder().incarnation;
        // Like a crash.
        drop(first);
        let cluster = site.cluster();
        let joining = cluster.join(node("a:1"), NonZeroU32::MIN);
        let mut joining = std::pin::pin!(joining);
        assert!(site.world.run_until_stuck(joining.as_mut()).is_none());
        site.pass(TTL);
        let second = site.world.run_until_stuck(joining.as_mut()).unwrap().unwrap();
        assert!(second.holder().incarnation > earlier);
    }
}

#[test]
fn address_of_a_live_member_is_taken() {
    let site = Site::new();
    let first = site.node("a:1");
    let cluster = site.cluster();
    let joining = cluster.join(node("a:1"), NonZeroU32::MIN);
    let mut joining = std::pin::pin!(joining);
    for _ in 0..40 {
        if let Some(joined) = site.world.run_until_stuck(joining.as_mut()) {
            assert_eq!(joined.unwrap_err(), JoinError::AddressTaken(node("a:1")));
            assert!(first.may_serve());
            return;
        }
        site.pass(Duration::from_secs(1));
    }
    panic!("the join never ended");
}

#[test]
fn earlier_incarnation_cannot_claim() {
    let site = Site::new();
    let (cluster, cut) = site.cuttable();
    let old = site.join(&cluster, "a:1");
    cut.set(true);
    site.pass(TTL);
    let new = site.node("a:1");
    site.place(&new);
    cut.set(false);
    // Its view still has the membership. The stored state decides.
    let refused = site.claim(&old, 0).unwrap_err();
    let expected =
        [ShardClaimError::Over, ShardClaimError::Refused(ClaimRefused::Replaced(node("a:1")))];
    assert!(expected.contains(&refused), "{refused}");
    assert!(site.claim(&new, 0).is_ok());
}

#[test]
fn gates_never_arm_the_guard() {
    let site = Site::new();
    let watcher = site.cluster();
    let a = site.node("a:1");
    let since = watcher.view().members.changed_at();
    site.pass(Duration::from_secs(3));
    let gate = site.run(site.cluster().join_gate(node("g:1"))).unwrap();
    assert!(watcher.view().gates.contains(&node("g:1")));
    // A gate with the same address replaces it at once.
    let again = site.run(site.cluster().join_gate(node("g:1"))).unwrap();
    site.run(gate.leave()).unwrap();
    assert!(watcher.view().gates.contains(&node("g:1")));
    site.pass(TTL * 2);
    assert!(again.may_serve());
    site.run(again.leave()).unwrap();
    assert!(watcher.view().gates.is_empty());
    assert_eq!(watcher.view().members.changed_at(), since);
    assert!(a.may_serve() && watcher.now() > since);
}

#[test]
fn guard_is_armed_when_nodes_join_or_leave() {
    let site = Site::new();
    let watcher = site.cluster();
    let changed_at = || watcher.view().members.changed_at();
    let now = || LogicalTime::from_millis(site.world.clock().millis());
    let a = site.node("a:1");
    assert_eq!(changed_at(), now());
    site.pass(Duration::from_secs(1));
    site.run(a.set_leaving(true)).unwrap();
    assert!(changed_at() < now());
    site.run(a.leave()).unwrap();
    assert_eq!(changed_at(), now());
}

#[test]
fn leaving_mark_ends_with_the_membership_a_drain_mark_stays() {
    for site in [Site::new(), Site::text()] {
        let watcher = site.cluster();
        let is_draining = || watcher.view().members.get("a:1").unwrap().draining;
        let a = site.node("a:1");
        site.run(a.set_leaving(true)).unwrap();
        assert!(is_draining());
        site.run(a.set_leaving(false)).unwrap();
        assert!(!is_draining());
        site.run(a.set_leaving(true)).unwrap();
        site.run(a.leave()).unwrap();
        let a = site.node("a:1");
        assert!(!is_draining());
        assert!(site.run(watcher.set_drained(&node("a:1"), true)).unwrap());
        assert!(!site.run(watcher.set_drained(&node("a:1"), true)).unwrap());
        assert!(is_draining());
        site.run(a.leave()).unwrap();
        let _a = site.node("a:1");
        assert!(is_draining());
        assert!(site.run(watcher.set_drained(&node("a:1"), false)).unwrap());
        assert!(!is_draining());
    }
}

#[test]
fn text_cannot_store_weights() {
    let site = Site::text();
    let cluster = site.cluster();
    let weight = NonZeroU32::new(2).unwrap();
    let refused = site.run(cluster.join(node("a:1"), weight)).unwrap_err();
    assert_eq!(refused, JoinError::Weight);
}

#[test]
fn weight_is_visible_to_all() {
    let site = Site::new();
    let weight = NonZeroU32::new(3).unwrap();
    let _a = site.run(site.cluster().join(node("a:1"), weight)).unwrap();
    assert_eq!(site.cluster().view().members.get("a:1").unwrap().weight, weight);
}
