use rstest::rstest;
use shardwright_contracts::{FenceEpoch, FenceEpochError, LogicalTime, ShardId};

use super::*;
use crate::flags::Flags;
use crate::member::{Incarnation, Member, Membership, NodeInstance, NodeInstanceRef};
use crate::shard_map::{Claim, ShardInfo};
use crate::target::{TargetHeader, TargetSince, TargetUpdate, TargetVersion};
use crate::{
    DrainProgress, Handover, HandoverAttempts, HandoverStep, HandoverTimeouts, NodeAddress,
    ShardCount, ShardDuties, ShardMap, Target,
};

fn node(text: &str) -> NodeAddress {
    NodeAddress::parse(text).unwrap()
}

fn holder(text: &str, life: u64) -> NodeInstance {
    NodeInstance { address: node(text), incarnation: Incarnation::from_raw(life) }
}

fn fence(raw: u64) -> FenceEpoch {
    FenceEpoch::from_raw(raw).unwrap()
}

/// Nodes `a` and `b` are members, each in its second incarnation.
fn members() -> Membership {
    let member = |name| Member::new(node(name), Incarnation::from_raw(2));
    Membership::try_new([member("a"), member("b")], LogicalTime::ZERO).unwrap()
}

/// A shard with that target and claim.
fn with<R>(
    target: Option<&str>,
    current: Option<(&str, u64)>,
    at: Option<u64>,
    use_it: impl FnOnce(ShardInfo<'_>) -> R,
) -> R {
    let (target, current) = (target.map(node), current.map(|(name, life)| holder(name, life)));
    use_it(ShardInfo {
        shard: ShardId::from_raw(0),
        target: target.as_ref(),
        current: current.as_ref().map(NodeInstance::borrowed),
        flags: &Flags::default(),
        fence: at.map(fence),
        since: TargetSince::Unknown,
    })
}

#[rstest]
#[case::never_claimed(None, None, 2)]
#[case::released(None, Some(7), 8)]
#[case::holder_is_gone(Some(("c", 1)), Some(7), 8)]
#[case::holder_is_another_life_of_a_member(Some(("b", 1)), Some(7), 8)]
#[case::holder_was_an_earlier_life_of_the_claimer(Some(("a", 1)), Some(7), 8)]
fn claim_raises_the_fence(
    #[case] current: Option<(&str, u64)>,
    #[case] at: Option<u64>,
    #[case] expected: u64,
) {
    let claimer = holder("a", 2);
    let claimed =
        with(Some("a"), current, at, |info| claim(info, &claimer, &members(), FenceEpoch::INITIAL));
    assert_eq!(claimed, Ok(Claim { holder: Some(claimer), fence: fence(expected) }));
}

#[rstest]
#[case::stranger("c", 1, Some("c"), None, ClaimRefused::NotAMember(node("c")))]
#[case::earlier_life("a", 1, Some("a"), None, ClaimRefused::Replaced(node("a")))]
#[case::no_target("a", 2, None, None, ClaimRefused::NoTarget)]
#[case::other_target("a", 2, Some("b"), None, ClaimRefused::MeantForAnother(node("b")))]
#[case::own("a", 2, Some("a"), Some(("a", 2)), ClaimRefused::AlreadyHeld(fence(7)))]
#[case::held("a", 2, Some("a"), Some(("b", 2)), ClaimRefused::HeldByMember(node("b")))]
fn claim_refusals_name_the_reason(
    #[case] name: &str,
    #[case] life: u64,
    #[case] target: Option<&str>,
    #[case] current: Option<(&str, u64)>,
    #[case] reason: ClaimRefused,
) {
    let refused = with(target, current, Some(7), |info| {
        claim(info, &holder(name, life), &members(), FenceEpoch::INITIAL)
    });
    assert_eq!(refused, Err(reason));
}

#[test]
fn raised_floor_frees_shards_below_it() {
    for current in [("a", 2), ("b", 2)] {
        let claimed = with(Some("a"), Some(current), Some(7), |info| {
            claim(info, &holder("a", 2), &members(), fence(100))
        });
        assert_eq!(claimed.unwrap().fence, fence(100));
    }
}

#[test]
fn exhausted_fence_is_refused() {
    let refused = with(Some("a"), None, Some(u64::MAX), |info| {
        claim(info, &holder("a", 2), &members(), FenceEpoch::INITIAL)
    });
    assert_eq!(refused, Err(ClaimRefused::Fence(FenceEpochError::Exhausted)));
}

#[test]
fn release_keeps_the_fence() {
    let released = with(Some("b"), Some(("a", 2)), Some(7), |info| {
        release(info, &holder("a", 2), fence(7), 0, ReleaseReason::Moved)
    });
    assert_eq!(released, Ok(Claim { holder: None, fence: fence(7) }));
}

#[test]
fn leaving_node_releases_its_targets() {
    let release = |why| {
        with(Some("a"), Some(("a", 2)), Some(7), |info| {
            release(info, &holder("a", 2), fence(7), 0, why)
        })
    };
    assert_eq!(release(ReleaseReason::Moved), Err(ReleaseRefused::MeantToStay));
    assert!(release(ReleaseReason::Leaving).is_ok());
}

#[rstest]
#[case::free(None, Some(7), 7, 0, ReleaseRefused::NotHeld)]
#[case::never_claimed(None, None, 7, 0, ReleaseRefused::NotHeld)]
#[case::of_another(Some(("b", 2)), Some(7), 7, 0, ReleaseRefused::HeldByAnother(node("b")))]
#[case::of_another_life(Some(("a", 3)), Some(7), 7, 0, ReleaseRefused::HeldByAnother(node("a")))]
#[case::stale(Some(("a", 2)), Some(7), 6, 0,
    ReleaseRefused::StaleFence { presented: fence(6), current: fence(7) })]
#[case::not_evicted(Some(("a", 2)), Some(7), 7, 3, ReleaseRefused::NotEvicted(3))]
fn release_refusals_name_the_reason(
    #[case] current: Option<(&str, u64)>,
    #[case] at: Option<u64>,
    #[case] presented: u64,
    #[case] objects: u64,
    #[case] reason: ReleaseRefused,
) {
    let refused = with(Some("b"), current, at, |info| {
        release(info, &holder("a", 2), fence(presented), objects, ReleaseReason::Moved)
    });
    assert_eq!(refused, Err(reason));
}

#[test]
fn leader_is_replaced_only_when_gone() {
    let (a, b) = (holder("a", 2), holder("b", 2));
    let former = holder("a", 1);
    let lead = |leader: Option<&NodeInstance>, candidate: &NodeInstance| {
        lead(leader.map(NodeInstance::borrowed), candidate, &members())
    };
    assert_eq!(lead(None, &a), Ok(a.clone()));
    assert_eq!(lead(Some(&former), &b), Ok(b.clone()));
    assert_eq!(lead(Some(&former), &a), Ok(a.clone()));
    assert_eq!(lead(Some(&a), &b), Err(LeadRefused::LedByMember(node("a"))));
    assert_eq!(lead(Some(&a), &a), Err(LeadRefused::AlreadyLeading));
    assert_eq!(lead(None, &former), Err(LeadRefused::NotAMember(node("a"))));
}

#[test]
fn only_the_leader_writes_the_next_version() {
    let (a, b) = (holder("a", 2), holder("b", 2));
    let stored = TargetVersion::from_raw(4);
    let update = |version| {
        let header =
            TargetHeader { version: TargetVersion::from_raw(version), ..TargetHeader::default() };
        TargetUpdate { header, changes: Vec::new() }
    };
    let check = |leader: Option<NodeInstanceRef<'_>>, version| {
        check_leader(leader, &a, stored, &update(version))
    };
    assert_eq!(check(Some(a.borrowed()), 5), Ok(()));
    assert_eq!(check(None, 5), Err(LeaderRefused::NoLeader));
    assert_eq!(check(Some(b.borrowed()), 5), Err(LeaderRefused::NotLeading(node("b"))));
    let earlier = holder("a", 1);
    assert_eq!(check(Some(earlier.borrowed()), 5), Err(LeaderRefused::NotLeading(node("a"))));
    for offered in [4, 6] {
        let offered_version = TargetVersion::from_raw(offered);
        let stale = LeaderRefused::StaleVersion { stored, offered: offered_version };
        assert_eq!(check(Some(a.borrowed()), offered), Err(stale));
    }
}

#[rstest]
#[case(true, 3, 2, HandoverStep::StopAdmitting)]
#[case(false, 0, 2, HandoverStep::Evict)]
#[case(false, 0, 0, HandoverStep::Release)]
fn handover_follows_its_steps(
    #[case] admitting: bool,
    #[case] calls: u64,
    #[case] objects: u64,
    #[case] step: HandoverStep,
) {
    let handover = Handover { admitting, calls, objects, in_doubt: false };
    let me = holder("a", 2);
    for (target, leaving) in [("b", false), ("b", true), ("a", true)] {
        let next = with(Some(target), Some(("a", 2)), Some(7), |info| {
            handover.next_step(info, &me, leaving, HandoverAttempts::default())
        });
        assert_eq!(next, step);
    }
}

/// The next step for a shard with running calls and another target.
fn with_calls(admitting: bool, leaving: bool, attempts: HandoverAttempts) -> HandoverStep {
    let handover = Handover { admitting, calls: 3, objects: 2, in_doubt: false };
    with(Some("b"), Some(("a", 2)), Some(7), |info| {
        handover.next_step(info, &holder("a", 2), leaving, attempts)
    })
}

fn attempts(since_ms: u64, as_it_is_ms: u64, tries: u32) -> HandoverAttempts {
    HandoverAttempts { since_ms, as_it_is_ms, tries, ..HandoverAttempts::default() }
}

#[test]
fn long_calls_are_awaited_in_growing_attempts() {
    let wait = |as_it_is_ms| attempts(1_000, as_it_is_ms, 0);
    let hold = |ms| HandoverStep::AwaitCalls { at_most_ms: Some(ms) };
    assert_eq!(with_calls(false, false, wait(0)), hold(200));
    assert_eq!(with_calls(false, false, wait(150)), hold(50));
    assert_eq!(with_calls(false, false, wait(200)), HandoverStep::AdmitAgain);
    // Each attempt holds other calls longer, up to a limit.
    for (tries, held) in [(1, 400), (2, 800), (3, 1_000), (4, 1_000), (90, 1_000)] {
        let attempts = attempts(1_000, 0, tries);
        assert_eq!(with_calls(false, false, attempts), hold(held), "{tries}");
        let later = HandoverAttempts { as_it_is_ms: held, ..attempts };
        assert_eq!(with_calls(false, false, later), HandoverStep::AdmitAgain, "{tries}");
    }
    // Each pause is longer, up to a limit.
    let serve_on = |at_most_ms| HandoverStep::ServeOn { at_most_ms };
    for (tries, pause) in [(1, 200), (2, 400), (3, 800), (6, 5_000), (7, 5_000), (90, 5_000)] {
        let attempts = attempts(1_000, 0, tries);
        assert_eq!(with_calls(true, false, attempts), serve_on(pause), "{tries}");
        let later = HandoverAttempts { as_it_is_ms: pause - 1, ..attempts };
        assert_eq!(with_calls(true, false, later), serve_on(1), "{tries}");
        let later = HandoverAttempts { as_it_is_ms: pause, ..attempts };
        assert_eq!(with_calls(true, false, later), HandoverStep::StopAdmitting, "{tries}");
    }
    // When no call runs, the handover starts at once.
    let idle = Handover { admitting: true, calls: 0, objects: 2, in_doubt: false };
    let attempts = attempts(1_000, 0, 6);
    let next = with(Some("b"), Some(("a", 2)), Some(7), |info| {
        idle.next_step(info, &holder("a", 2), false, attempts)
    });
    assert_eq!(next, HandoverStep::StopAdmitting);
}

#[test]
fn forced_handover_awaits_calls_to_their_end() {
    let end = HandoverStep::AwaitCalls { at_most_ms: None };
    let force_ms = HandoverTimeouts::default().force_ms;
    let long = attempts(force_ms, 60_000, 9);
    assert_eq!(with_calls(false, false, long), end);
    assert_eq!(with_calls(true, false, HandoverAttempts { as_it_is_ms: 0, ..long }), STOP);
    let begun = attempts(900, 900, 0);
    assert_eq!(with_calls(false, true, begun), end);
    assert_eq!(
        with_calls(true, true, HandoverAttempts { as_it_is_ms: 0, tries: 3, ..begun }),
        STOP
    );
    // The wait is limited to the time that is left.
    let soon = attempts(force_ms - 7, 0, 9);
    assert_eq!(with_calls(true, false, soon), HandoverStep::ServeOn { at_most_ms: 7 });
    // A node that leaves has less time, unless the limit was lower anyway.
    let leaves = |since_ms| HandoverAttempts { leaves: true, ..attempts(since_ms, 0, 9) };
    assert_eq!(with_calls(false, false, leaves(10_000)), end);
    assert_eq!(with_calls(true, false, leaves(9_993)), HandoverStep::ServeOn { at_most_ms: 7 });
    let timeouts = HandoverTimeouts { force_ms: 5_000, ..HandoverTimeouts::default() };
    assert_eq!(with_calls(false, false, HandoverAttempts { timeouts, ..leaves(5_000) }), end);
}

const STOP: HandoverStep = HandoverStep::StopAdmitting;

#[test]
fn rejected_release_is_retried_with_growing_pauses() {
    let next = |handover: Handover, leaving, attempts| {
        with(Some("b"), Some(("a", 2)), Some(7), |info| {
            handover.next_step(info, &holder("a", 2), leaving, attempts)
        })
    };
    let empty = Handover { admitting: false, calls: 0, objects: 0, in_doubt: false };
    let refused = HandoverAttempts { refusals: 1, is_refused: true, ..attempts(300, 300, 0) };
    assert_eq!(next(empty, false, refused), HandoverStep::AdmitAgain);
    // A node that leaves at once, or with a release of unknown outcome, has no other way.
    assert_eq!(next(empty, true, refused), HandoverStep::Release);
    let in_doubt = Handover { in_doubt: true, ..empty };
    assert_eq!(next(in_doubt, false, refused), HandoverStep::Release);
    // The store gets no request for a while, whether calls run or not.
    let force_ms = HandoverTimeouts::default().force_ms;
    for (refusals, pause) in [(1, 200), (2, 400), (5, 3_200), (6, 5_000), (90, 5_000)] {
        for (calls, since_ms) in [(0, 300), (3, 300), (0, force_ms), (3, force_ms)] {
            let serving = Handover { admitting: true, calls, ..empty };
            let served =
                |as_it_is_ms| HandoverAttempts { refusals, ..attempts(since_ms, as_it_is_ms, 1) };
            let serve_on = HandoverStep::ServeOn { at_most_ms: pause };
            assert_eq!(next(serving, false, served(0)), serve_on, "{refusals} {calls}");
            assert_eq!(next(serving, false, served(pause)), STOP, "{refusals} {calls}");
            assert_eq!(next(serving, true, served(0)), STOP, "{refusals} {calls}");
        }
    }
    // After that the node retries, and holds calls no longer than before.
    let again = HandoverAttempts { refusals: 1, ..attempts(600, 10, 1) };
    assert_eq!(next(empty, false, again), HandoverStep::Release);
    let with_calls = Handover { calls: 3, ..empty };
    let held_for = |ms| HandoverAttempts { refusals: 1, ..attempts(force_ms, ms, 1) };
    let hold = HandoverStep::AwaitCalls { at_most_ms: Some(1) };
    assert_eq!(next(with_calls, false, held_for(399)), hold);
    assert_eq!(next(with_calls, false, held_for(400)), HandoverStep::AdmitAgain);
}

#[test]
fn only_own_shards_are_served() {
    let next = |admitting, target: Option<&str>, current| {
        let handover = Handover { admitting, calls: 0, objects: 0, in_doubt: false };
        with(target, current, Some(7), |info| {
            handover.next_step(info, &holder("a", 2), false, HandoverAttempts::default())
        })
    };
    let own = Some(("a", 2));
    assert_eq!(next(true, Some("a"), own), HandoverStep::Serve);
    assert_eq!(next(true, None, own), HandoverStep::Serve);
    assert_eq!(next(false, Some("a"), own), HandoverStep::AdmitAgain);
    for other in [None, Some(("b", 2)), Some(("a", 1))] {
        assert_eq!(next(true, Some("b"), other), HandoverStep::Nothing);
    }
}

#[test]
fn shard_is_not_served_while_a_release_is_unresolved() {
    let next = |target, current| {
        let handover = Handover { admitting: false, calls: 0, objects: 0, in_doubt: true };
        with(Some(target), current, Some(7), |info| {
            handover.next_step(info, &holder("a", 2), false, HandoverAttempts::default())
        })
    };
    let own = Some(("a", 2));
    assert_eq!(next("a", own), HandoverStep::Keep);
    assert_eq!(next("b", own), HandoverStep::Release);
    assert_eq!(next("a", None), HandoverStep::Nothing, "the release was applied");
    let kept = with(Some("a"), own, Some(7), |info| keep(info, &holder("a", 2), fence(7)));
    assert_eq!(kept.unwrap(), Claim { holder: Some(holder("a", 2)), fence: fence(7) });
    let gone = with(Some("a"), None, Some(7), |info| keep(info, &holder("a", 2), fence(7)));
    assert_eq!(gone.unwrap_err(), ReleaseRefused::NotHeld);
}

#[test]
fn duties_follow_the_targets() {
    let mut map = ShardMap::new(ShardCount::try_new(5).unwrap());
    let number = ShardId::from_raw;
    for (shard, target, current) in [
        (0, "b", Some(("a", 2))),
        (1, "a", Some(("a", 2))),
        (2, "a", None),
        (3, "a", Some(("b", 2))),
        (4, "a", Some(("c", 1))),
    ] {
        let target = Target {
            node: Some(node(target)),
            flags: Flags::default(),
            since: TargetSince::Unknown,
        };
        map.load_target(number(shard), &target).unwrap();
        if let Some((name, life)) = current {
            let claim = Claim { holder: Some(holder(name, life)), fence: fence(2) };
            map.learn_claim(number(shard), &claim).unwrap();
        }
    }
    let duties = |leaving| {
        let ShardDuties { claim, give_up } =
            ShardDuties::of(&map, &holder("a", 2), &members(), FenceEpoch::INITIAL, leaving);
        let raw = |shards: Vec<ShardId>| shards.into_iter().map(ShardId::as_raw).collect();
        (raw(claim), raw(give_up))
    };
    let none: Vec<u64> = Vec::new();
    assert_eq!(duties(false), (vec![2, 4], vec![0]));
    assert_eq!(duties(true), (none, vec![0, 1]));
}

#[test]
fn drain_is_done_without_shards_and_targets() {
    let mut map = ShardMap::new(ShardCount::try_new(3).unwrap());
    let target =
        |name, flags| Target { node: Some(node(name)), flags, since: TargetSince::Unknown };
    let held = |who: &NodeInstance| Claim { holder: Some(who.clone()), fence: fence(2) };
    let number = ShardId::from_raw;
    map.load_target(number(0), &target("a", Flags::default().pinned())).unwrap();
    map.load_target(number(1), &target("b", Flags::default())).unwrap();
    map.learn_claim(number(1), &held(&holder("a", 2))).unwrap();
    // An earlier instance is not a holder.
    map.learn_claim(number(2), &held(&holder("a", 1))).unwrap();
    let progress = |map: &ShardMap| DrainProgress::of(map, &node("a"), &members());
    assert_eq!(progress(&map), DrainProgress { held: 1, targeted: 1, pinned: 1 });
    assert!(!progress(&map).is_done());
    map.load_target(number(0), &target("b", Flags::default())).unwrap();
    assert!(!progress(&map).is_done());
    map.learn_claim(number(1), &Claim { holder: None, fence: fence(2) }).unwrap();
    assert!(progress(&map).is_done());
}
