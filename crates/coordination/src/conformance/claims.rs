//! Taking whichever shard can be had.

use std::collections::BTreeSet;

use shardwright_contracts::{
    CursorUpdate, RunId, ShardId, ShardSpecRef, WorkerId, plan_split_residual,
};

use super::{COOLDOWN_MS, Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
};
use crate::error::{ClaimError, SplitRequestError};
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::restore::HolderNotice;
use crate::status::ParkReason;

/// As many claims as shards, all different, and then none.
pub async fn every_shard_is_claimed_once<H: Harness>(harness: &H) {
    let bounds: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];
    let world = World::new(harness, &bounds).await;
    let mut claimed = BTreeSet::new();
    for worker in 0..5 {
        let worker = WorkerId::from_raw(worker * 7);
        let shard =
            world.backend().claim_next_available(world.tenant, world.run, worker).await.unwrap();
        assert!(claimed.insert(shard.lease.key().shard), "claimed twice");
    }
    let worker = WorkerId::from_raw(99);
    let none = world.backend().claim_next_available(world.tenant, world.run, worker).await;
    let Err(ClaimError::NoneAvailable(none)) = none else { panic!("{none:?}") };
    assert!(none.earliest_deadline.is_some(), "it says when to come back");
}

/// Claiming takes over what a dead worker left.
pub async fn a_shard_comes_back_when_its_lease_is_over<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lost = world.acquire(0, 1).await;
    world.checkpoint(&lost, "k", 1).await;
    harness.advance(LEASE_MS).await;
    let worker = WorkerId::from_raw(2);
    let claimed =
        world.backend().claim_next_available(world.tenant, world.run, worker).await.unwrap();
    assert!(claimed.lease.fence() > lost.fence());
    assert_eq!(claimed.cursor.as_update(), CursorUpdate::at(b"k"));
}

/// A worker that found nothing is counted, and can ask the holder for a part.
pub async fn a_waiting_worker_is_counted_and_can_ask_for_a_part<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let idle = WorkerId::from_raw(2);
    let claimed = backend.claim_next_available(tenant, world.run, idle).await;
    assert_refused!(claimed, ClaimError::NoneAvailable(_));
    assert_eq!(backend.renew(tenant, &lease).await.unwrap().capacity.waiting_workers, 1);
    backend.request_split(tenant, key, idle, LEASE_MS).await.unwrap();
    let third = WorkerId::from_raw(3);
    let asked = backend.request_split(tenant, key, third, LEASE_MS).await;
    assert_refused!(asked, SplitRequestError::SplitAlreadyRequested(_));
    assert_eq!(asked_of(&world, &lease).await, Some(idle));
    backend.decline_split(tenant, &lease, 100).await.unwrap();
    let asked = backend.request_split(tenant, key, idle, LEASE_MS).await;
    assert_refused!(asked, SplitRequestError::SplitDeclined(_));
    harness.advance(100).await;
    backend.request_split(tenant, key, idle, LEASE_MS).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let noticed = backend.checkpoint(tenant, &lease, cursor, op(1)).await.unwrap().into_inner();
    let told = told_or_asked(&world, &lease, noticed).await;
    assert_eq!(told.split_request.map(|request| request.requester), Some(idle));
}

/// No run, no shards; and none of a run that is paused or over.
pub async fn nothing_is_claimed_where_there_is_no_run<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, worker) = (world.backend(), world.tenant, WorkerId::from_raw(1));
    let missing = backend.claim_next_available(tenant, RunId::from_raw(77), worker).await;
    assert!(matches!(missing, Err(ClaimError::RunNotFound(_))), "{missing:?}");
    backend.pause_run(tenant, world.run, op(1)).await.unwrap();
    let paused = backend.claim_next_available(tenant, world.run, worker).await;
    assert!(matches!(paused, Err(ClaimError::RunPaused(_))), "{paused:?}");
    backend.cancel_run(tenant, world.run, op(2)).await.unwrap();
    let ended = backend.claim_next_available(tenant, world.run, worker).await;
    assert!(matches!(ended, Err(ClaimError::RunNotActive(_))), "{ended:?}");
}

/// A worker that was given a shard lets others come first for a while; others need not wait.
pub async fn a_worker_pauses_between_two_claims<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"g", b"m", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let (hasty, other) = (WorkerId::from_raw(1), WorkerId::from_raw(2));
    let granted = backend.claim_next_available(tenant, run, hasty).await.unwrap();
    let again = backend.claim_next_available(tenant, run, hasty).await;
    let Err(ClaimError::Throttled(throttled)) = again else { panic!("{again:?}") };
    let lease_left = granted.lease.deadline().as_millis() - throttled.retry_after.as_millis();
    assert_eq!(lease_left, LEASE_MS - COOLDOWN_MS, "it says when to come back");
    backend.claim_next_available(tenant, run, other).await.unwrap();
    harness.advance(COOLDOWN_MS - 1).await;
    let early = backend.claim_next_available(tenant, run, hasty).await;
    assert!(matches!(early, Err(ClaimError::Throttled(_))), "{early:?}");
    harness.advance(1).await;
    backend.claim_next_available(tenant, run, hasty).await.unwrap();
    // Who finds nothing is not made to wait before it asks again.
    let third = WorkerId::from_raw(3);
    for _ in 0..2 {
        let none = backend.claim_next_available(tenant, run, third).await;
        assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    }
}

/// A request goes with the holder it was made to: when that one's time is up, who asked may ask
/// another at once.
pub async fn a_request_ends_with_the_lease_it_was_made_to<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let (backend, tenant, requester) = (world.backend(), world.tenant, WorkerId::from_raw(9));
    world.acquire(0, 1).await;
    harness.advance(LEASE_MS / 2).await;
    world.acquire(1, 2).await;
    backend.request_split(tenant, world.key(0), requester, 10 * LEASE_MS).await.unwrap();
    let elsewhere = backend.request_split(tenant, world.key(1), requester, LEASE_MS).await;
    assert_refused!(elsewhere, SplitRequestError::SplitAlreadyRequested(_));
    harness.advance(LEASE_MS / 2).await;
    let over = backend.request_split(tenant, world.key(0), requester, LEASE_MS).await;
    assert_refused!(over, SplitRequestError::NotLeased(_));
    backend.request_split(tenant, world.key(1), requester, LEASE_MS).await.unwrap();
}

/// Whoever gets what it asked for waits no longer, and may ask again.
pub async fn a_split_answers_the_request<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let (requester, other) = (WorkerId::from_raw(2), WorkerId::from_raw(3));
    backend.request_split(tenant, key, requester, LEASE_MS).await.unwrap();
    assert_eq!(asked_of(&world, &lease).await, Some(requester));
    let whole = ShardSpecRef::new(b"a", b"z", b"meta");
    let plan = plan_split_residual(whole, CursorUpdate::initial(), b"m").unwrap();
    backend.split_residual(tenant, &lease, &plan, op(1)).await.unwrap();
    assert_eq!(asked_of(&world, &lease).await, None, "it was answered");
    backend.request_split(tenant, key, other, LEASE_MS).await.unwrap();
    assert_eq!(asked_of(&world, &lease).await, Some(other));
}

/// A request lasts as long as the patience of who made it, who may grow more patient.
pub async fn a_request_runs_out_unless_it_is_made_again<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let (requester, other) = (WorkerId::from_raw(2), WorkerId::from_raw(3));
    backend.request_split(tenant, key, requester, 100).await.unwrap();
    harness.advance(60).await;
    backend.request_split(tenant, key, requester, 100).await.unwrap();
    harness.advance(99).await;
    assert_eq!(
        asked_of(&world, &lease).await,
        Some(requester),
        "it was made again, with a later end"
    );
    let second = backend.request_split(tenant, key, other, 100).await;
    assert_refused!(second, SplitRequestError::SplitAlreadyRequested(_));
    harness.advance(1).await;
    assert_eq!(asked_of(&world, &lease).await, None, "it has run out");
    backend.request_split(tenant, key, other, 100).await.unwrap();
    assert_eq!(asked_of(&world, &lease).await, Some(other));
}

/// What nobody could hear in time is not asked.
pub async fn a_request_that_is_over_already_is_refused<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let asked = backend.request_split(tenant, key, WorkerId::from_raw(2), 0).await;
    assert_refused!(asked, SplitRequestError::SplitRequestOver(_));
    assert_eq!(asked_of(&world, &lease).await, None);
    backend.request_split(tenant, key, WorkerId::from_raw(3), 1).await.unwrap();
    assert_eq!(asked_of(&world, &lease).await, Some(WorkerId::from_raw(3)));
}

/// A request, and what was said to it, are between two.
pub async fn what_was_asked_of_one_holder_is_hidden_from_the_next<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let requester = WorkerId::from_raw(9);
    let first = world.acquire(0, 1).await;
    backend.request_split(tenant, key, requester, 10 * LEASE_MS).await.unwrap();
    backend.release(tenant, &first, op(1)).await.unwrap();
    let second = world.acquire(0, 2).await;
    assert_eq!(asked_of(&world, &second).await, None, "the one before was asked");
    backend.request_split(tenant, key, requester, 10 * LEASE_MS).await.unwrap();
    assert_eq!(asked_of(&world, &second).await, Some(requester));
    backend.decline_split(tenant, &second, 10 * LEASE_MS).await.unwrap();
    harness.advance(LEASE_MS).await;
    let third = world.acquire(0, 3).await;
    assert_eq!(asked_of(&world, &third).await, None);
    backend.request_split(tenant, key, requester, LEASE_MS).await.unwrap();
    assert_eq!(asked_of(&world, &third).await, Some(requester), "the one before declined");
}

/// Whoever repeats itself may hold nothing any more. It is not told that nothing is asked either.
pub async fn a_retry_is_told_nothing_besides<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    backend.request_split(tenant, key, WorkerId::from_raw(2), LEASE_MS).await.unwrap();
    backend.pause_run(tenant, world.run, op(1)).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let first = backend.checkpoint(tenant, &lease, cursor, op(2)).await.unwrap();
    let told = told_or_asked(&world, &lease, first.into_inner()).await;
    assert!(told.paused && told.split_request.is_some(), "{told:?}");
    let again = backend.checkpoint(tenant, &lease, cursor, op(2)).await.unwrap();
    assert_eq!(again, IdempotentOutcome::Replayed(None));
}

/// Candidates are free, no more than wanted, and not the same for everybody first.
pub async fn candidates_are_what_can_be_acquired<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"d", b"g", b"k", b"p", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let candidates = async |worker, limit| {
        let worker = WorkerId::from_raw(worker);
        let found = backend.collect_claim_candidates(tenant, run, worker, limit).await;
        let (mut shards, hint) = found.unwrap();
        shards.sort_unstable();
        (shards.into_iter().map(ShardId::as_raw).collect::<Vec<_>>(), hint.earliest_deadline)
    };
    assert_eq!(candidates(1, 10).await, (vec![0, 1, 2, 3, 4], None));
    let held = world.acquire(0, 1).await;
    let parked = world.acquire(1, 1).await;
    backend.park_shard(tenant, &parked, ParkReason::Other, b"", op(1)).await.unwrap();
    let done = world.acquire(2, 1).await;
    world.complete(&done, 2).await;
    assert_eq!(candidates(1, 10).await, (vec![3, 4], Some(held.deadline())));
    assert_eq!(candidates(1, 1).await.0.len(), 1);
    let first = async |worker| candidates(worker, 1).await.0;
    assert_ne!(first(1).await, first(2).await, "neighbours begin with different ones");
    harness.advance(LEASE_MS).await;
    assert_eq!(candidates(1, 10).await.0, [0, 3, 4], "its holder's time is up");
    for shard in candidates(2, 10).await.0 {
        world.acquire(shard, 2).await;
    }
    assert_eq!(candidates(3, 10).await.0, []);
}

/// Who asks the holder of a lease for a part of its shard, as far as the holder is told.
async fn asked_of<H: Harness>(world: &World<'_, H>, lease: &Lease) -> Option<WorkerId> {
    world.notice(lease).await.split_request.map(|request| request.requester)
}

/// What a holder was told with an answer or, where that could not be read, is told when it asks.
async fn told_or_asked<H: Harness>(
    world: &World<'_, H>,
    lease: &Lease,
    told: Option<HolderNotice>,
) -> HolderNotice {
    match told {
        Some(told) => told,
        None => world.notice(lease).await,
    }
}
