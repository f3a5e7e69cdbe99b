use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardwright_cluster::{ShardClaimError, ShardRelease, ShardReleaseError};
use shardwright_contracts::ShardId;
use shardwright_placement::ops::{ClaimRefused, ReleaseReason, ReleaseRefused};
use shardwright_store::memory::{Before, HookedCall, Hooks};
use shardwright_store::{Fault, FaultKind};

use crate::flaky::{FlakyStore, Reaction, YieldingStore};
use crate::site::{SHARDS, Site, TTL, holder_of, is_unknown, node, shard};

#[test]
fn only_the_target_claims_a_shard() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        assert_eq!(site.claim(&a, 0), Err(ShardClaimError::Refused(ClaimRefused::NoTarget)));
        site.place(&a);
        let fence = site.claim(&a, 0).unwrap();
        assert_eq!(holder_of(&a.cluster(), 0), Some(a.holder().clone()));
        assert_eq!(
            site.claim(&b, 0),
            Err(ShardClaimError::Refused(ClaimRefused::MeantForAnother(node("a:1"))))
        );
        let again = site.claim(&a, 0);
        assert_eq!(again, Err(ShardClaimError::Refused(ClaimRefused::AlreadyHeld(fence))));
        let missing = site.claim(&a, u64::from(SHARDS)).unwrap_err();
        assert!(matches!(missing, ShardClaimError::Shard(_)));
    }
}

#[test]
fn many_shards_are_claimed_independently() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        site.place(&a);
        let shards: Vec<ShardId> = (0..u64::from(SHARDS) + 1).rev().map(shard).collect();
        let claimed = site.run(a.claim(&shards));
        let asked: Vec<ShardId> = claimed.iter().map(|(shard, _)| *shard).collect();
        assert_eq!(asked, shards);
        assert!(claimed[0].1.is_err());
        assert!(claimed[1..].iter().all(|(_, claimed)| claimed.is_ok()));
        assert_eq!(a.cluster().view().held_by(a.holder()).count(), SHARDS as usize);
        assert!(a.cluster().view().readiness().is_ready());
    }
}

#[test]
fn fence_rises_across_releases_moves_and_crashes() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.place(&a);
        let mut fences = vec![site.claim(&a, 0).unwrap()];
        site.release(&a, 0, fences[0]).unwrap();
        assert_eq!(holder_of(&b.cluster(), 0), None);
        fences.push(site.claim(&a, 0).unwrap());
        site.run(a.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
        // The holder is a member and must release the shard first.
        let held = ShardClaimError::Refused(ClaimRefused::HeldByMember(node("a:1")));
        assert_eq!(site.claim(&b, 0), Err(held));
        site.release(&a, 0, *fences.last().unwrap()).unwrap();
        fences.push(site.claim(&b, 0).unwrap());
        drop(b);
        site.pass(TTL);
        site.run(a.cluster().move_shard(shard(0), &node("a:1"))).unwrap();
        fences.push(site.claim(&a, 0).unwrap());
        assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
    }
}

#[test]
fn release_needs_the_fence_no_objects_and_a_reason() {
    let site = Site::new();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.place(&a);
    let first = site.claim(&a, 0).unwrap();
    site.release(&a, 0, first).unwrap();
    let fence = site.claim(&a, 0).unwrap();
    let refused = |release: ShardRelease| match site.run(a.release(&[release])).remove(0).1 {
        Err(ShardReleaseError::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    };
    let release = ShardRelease { shard: shard(0), fence, objects: 0, why: ReleaseReason::Moved };
    assert_eq!(refused(release), ReleaseRefused::MeantToStay);
    let leaving = ShardRelease { why: ReleaseReason::Leaving, ..release };
    assert_eq!(refused(ShardRelease { objects: 3, ..leaving }), ReleaseRefused::NotEvicted(3));
    let stale = ReleaseRefused::StaleFence { presented: first, current: fence };
    assert_eq!(refused(ShardRelease { fence: first, ..leaving }), stale);
    let other = ShardReleaseError::Refused(ReleaseRefused::HeldByAnother(node("a:1")));
    assert_eq!(site.release(&b, 0, fence), Err(other));
    assert_eq!(holder_of(&b.cluster(), 0), Some(a.holder().clone()));
}

/// Both see the same free shard, and each is its target for a while. The comparison in the commit
/// decides.
#[test]
fn at_most_one_of_two_claimers_gets_a_shard() {
    for seed in 0..200 {
        let site = if seed % 2 == 0 { Site::new() } else { Site::text() };
        let yielding = || site.cluster_over(YieldingStore(site.store.clone()));
        let (a, b) = (site.join(&yielding(), "a:1"), site.join(&yielding(), "b:1"));
        site.pass(Duration::from_secs(10));
        site.run(a.try_lead()).unwrap();
        site.run(a.lead_step(None)).unwrap();
        let cluster = a.cluster();
        let (target, moves) = (node("b:1"), async {
            cluster.move_shard(shard(0), &node("b:1")).await.unwrap();
        });
        // Both try while the target moves.
        let claims = async {
            let first = a.claim(&[shard(0)]).await.remove(0).1;
            (first, a.claim(&[shard(0)]).await.remove(0).1)
        };
        let both = async { (b.claim(&[shard(0)]).await, moves.await, b.claim(&[shard(0)]).await) };
        let ((one, two), (early, (), late)) = site.race(seed, claims, both);
        let by_a = [one, two].into_iter().filter(Result::is_ok).count();
        let by_b = early.iter().chain(&late).filter(|(_, claimed)| claimed.is_ok()).count();
        assert!(by_a + by_b <= 1, "seed {seed}");
        let view = site.run(cluster.refresh()).unwrap();
        assert_eq!(view.map.info(shard(0)).unwrap().target, Some(&target));
        let holder = view.map.info(shard(0)).unwrap().current;
        let expected = [(by_a, &a), (by_b, &b)].into_iter().find(|(won, _)| *won == 1);
        assert_eq!(holder, expected.map(|(_, winner)| winner.holder().borrowed()), "seed {seed}");
    }
}

#[test]
fn claim_without_a_live_membership_is_refused_by_the_store() {
    for site in [Site::new(), Site::text()] {
        let a = site.node("a:1");
        site.place(&a);
        // The session ends, and the node's watch does not deliver it.
        site.store.hold_watches();
        site.end_session_of("a:1");
        assert!(a.may_serve());
        let refused = site.claim(&a, 0);
        assert_eq!(refused, Err(ShardClaimError::Refused(ClaimRefused::NotAMember(node("a:1")))));
        site.store.release_watches();
        site.world.run_tasks();
        assert!(!a.may_serve());
        assert_eq!(site.claim(&a, 0), Err(ShardClaimError::Over));
    }
}

#[test]
fn late_claim_of_a_former_member_is_refused() {
    let site = Site::new();
    let (cluster, store) = site.flaky();
    let a = site.join(&cluster, "a:1");
    site.place(&a);
    store.always_after(0, Reaction::Late);
    assert!(site.claim(&a, 0).is_err());
    drop((a, cluster));
    site.pass(TTL * 2);
    assert_eq!(site.run(store.deliver_late()), 0);
}

#[test]
fn unknown_claim_is_resolved_by_a_read() {
    for site in [Site::new(), Site::text()] {
        let (cluster, store) = site.flaky();
        let a = site.join(&cluster, "a:1");
        site.place(&a);
        // The claim was applied, and its answer was lost.
        store.next([Reaction::LoseAnswer]);
        let fence = site.claim(&a, 0).unwrap();
        assert_eq!(cluster.view().map.info(shard(0)).unwrap().fence, Some(fence));
        // The claim was delayed. The same commit is sent again, and the delayed copy changes
        // nothing.
        store.next([Reaction::Late]);
        let fence = site.claim(&a, 1).unwrap();
        assert_eq!(site.run(store.deliver_late()), 0);
        let view = site.run(cluster.refresh()).unwrap();
        assert_eq!(view.map.info(shard(1)).unwrap().fence, Some(fence));
        // An outcome that stays unknown is not reported as a refusal.
        store.always_after(0, Reaction::Late);
        let Err(ShardClaimError::Store(error)) = site.claim(&a, 2) else {
            panic!("the outcome is known")
        };
        assert!(is_unknown(&error));
        store.next([]);
        assert_eq!(site.run(store.deliver_late()), 1);
        site.world.run_tasks();
        assert_eq!(holder_of(&cluster, 2), Some(a.holder().clone()));
    }
}

#[test]
fn unknown_release_is_resolved_by_a_read() {
    for site in [Site::new(), Site::text()] {
        let (cluster, store) = site.flaky();
        let a = site.join(&cluster, "a:1");
        let b = site.node("b:1");
        site.place(&a);
        let fence = site.claim(&a, 0).unwrap();
        store.next([Reaction::LoseAnswer]);
        assert_eq!(site.release(&a, 0, fence), Ok(()));
        assert_eq!(holder_of(&cluster, 0), None);
        // The shard is released and claimed by another node before the outcome is read.
        let fence = site.claim(&a, 0).unwrap();
        site.run(b.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
        site.world.run_tasks();
        let (world, claimer) = (site.world.clone(), b.clone());
        store.next([Reaction::LoseAnswer]);
        store.on_fault(move || {
            world.run_tasks();
            let claimed = world.block_on(claimer.claim(&[shard(0)])).remove(0).1;
            assert!(claimed.is_ok(), "{claimed:?}");
        });
        assert_eq!(site.release(&a, 0, fence), Ok(()));
        assert_eq!(holder_of(&cluster, 0), Some(b.holder().clone()));
    }
}

/// A store that fails after a number of reads.
#[derive(Default)]
struct LoadsLeft(Mutex<Option<u32>>);

impl Hooks for LoadsLeft {
    async fn before(&self, call: HookedCall<'_>) -> Before {
        let mut left = self.0.lock().unwrap();
        let (HookedCall::Load(_), Some(left)) = (call, left.as_mut()) else { return Before::Go };
        match left.checked_sub(1) {
            Some(fewer) => *left = fewer,
            None => {
                return Before::Refuse(Fault::new(
                    FaultKind::Unreachable,
                    "the limit of reads is reached",
                ));
            }
        }
        Before::Go
    }
}

/// Taken for a refusal, the node would serve a shard of another node.
#[test]
fn overtaken_release_is_unknown_if_reads_fail() {
    for site in [Site::new(), Site::text()] {
        let reads = Arc::new(LoadsLeft::default());
        let store = FlakyStore::new(site.store.client(Arc::clone(&reads)));
        let a = site.join(&site.cluster_over(store.clone()), "a:1");
        let b = site.node("b:1");
        site.place(&a);
        let fence = site.claim(&a, 0).unwrap();
        site.run(b.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
        let (world, claimer) = (site.world.clone(), b.clone());
        store.next([Reaction::LoseAnswer]);
        store.on_fault(move || {
            world.run_tasks();
            assert!(world.block_on(claimer.claim(&[shard(0)])).remove(0).1.is_ok());
            *reads.0.lock().unwrap() = Some(1);
        });
        let Err(ShardReleaseError::Store(error)) = site.release(&a, 0, fence) else {
            panic!("the outcome is known")
        };
        assert!(is_unknown(&error), "{error}");
    }
}

#[test]
fn keeping_a_shard_rejects_a_late_release() {
    for site in [Site::new(), Site::text()] {
        let (cluster, store) = site.flaky();
        let a = site.join(&cluster, "a:1");
        site.place(&a);
        let (kept, gone) = (site.claim(&a, 0).unwrap(), site.claim(&a, 1).unwrap());
        for (number, fence) in [(0, kept), (1, gone)] {
            store.always_after(0, Reaction::Late);
            let Err(ShardReleaseError::Store(error)) = site.release(&a, number, fence) else {
                panic!("the outcome is known")
            };
            assert!(is_unknown(&error));
            store.next([]);
            if number == 0 {
                assert_eq!(site.run(a.keep(shard(0), kept)), Ok(()));
            }
        }
        // Each release was sent more than once. One copy of one release is applied, and none of the
        // other.
        assert_eq!(site.run(store.deliver_late()), 1);
        site.world.run_tasks();
        assert_eq!(holder_of(&cluster, 0), Some(a.holder().clone()));
        assert_eq!(holder_of(&cluster, 1), None);
        let refused = site.run(a.keep(shard(1), gone));
        assert_eq!(refused, Err(ShardReleaseError::Refused(ReleaseRefused::NotHeld)));
    }
}

#[test]
fn refusal_on_a_stale_view_is_decided_again() {
    let site = Site::new();
    let (a, b) = (site.node("a:1"), site.node("b:1"));
    site.place(&a);
    let fence = site.claim(&a, 0).unwrap();
    site.run(a.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
    // B's watch does not deliver the release.
    site.store.hold_watches();
    site.release(&a, 0, fence).unwrap();
    assert_eq!(holder_of(&b.cluster(), 0), Some(a.holder().clone()));
    assert!(site.claim(&b, 0).is_ok());
    site.store.release_watches();
    site.world.run_tasks();
    assert_eq!(holder_of(&a.cluster(), 0), Some(b.holder().clone()));
}

#[test]
fn claim_on_a_stale_view_does_not_displace_a_member() {
    for site in [Site::new(), Site::text()] {
        let (a, b) = (site.node("a:1"), site.node("b:1"));
        site.place(&a);
        site.run(a.cluster().move_shard(shard(0), &node("b:1"))).unwrap();
        // A's view is stale from here on: the shard looks free and targeted at A.
        site.run(a.cluster().move_shard(shard(0), &node("a:1"))).unwrap();
        site.store.hold_watches();
        let other = site.node("c:1");
        site.run(other.cluster().move_shard(shard(0), &node("c:1"))).unwrap();
        let fence = site.claim(&other, 0).unwrap();
        let refused = site.claim(&a, 0).unwrap_err();
        assert!(matches!(refused, ShardClaimError::Refused(_)), "{refused}");
        site.store.release_watches();
        site.world.run_tasks();
        assert_eq!(b.cluster().view().map.info(shard(0)).unwrap().fence, Some(fence));
    }
}
