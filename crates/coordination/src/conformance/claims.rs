//! Claims, split requests and claim candidates.

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

/// There are as many claims as shards, all different, and then none.
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
    assert!(none.earliest_deadline.is_some(), "the refusal names a deadline");
}

/// A claim grants the shard of a dead worker.
pub async fn expired_shard_can_be_claimed<H: Harness>(harness: &H) {
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

/// A worker with a refused claim is counted and can request a split.
pub async fn waiting_worker_is_counted_and_can_request_a_split<H: Harness>(harness: &H) {
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
    assert_eq!(requester_of(&world, &lease).await, Some(idle));
    backend.decline_split(tenant, &lease, 100).await.unwrap();
    let asked = backend.request_split(tenant, key, idle, LEASE_MS).await;
    assert_refused!(asked, SplitRequestError::SplitDeclined(_));
    harness.advance(100).await;
    backend.request_split(tenant, key, idle, LEASE_MS).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let noticed = backend.checkpoint(tenant, &lease, cursor, op(1)).await.unwrap().into_inner();
    let notice = notice_or_renew(&world, &lease, noticed).await;
    assert_eq!(notice.split_request.map(|request| request.requester), Some(idle));
}

/// A claim needs an active run that is not paused.
pub async fn claim_needs_an_active_run<H: Harness>(harness: &H) {
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

/// A worker waits between two claims. Other workers are not throttled.
pub async fn claims_of_a_worker_are_throttled<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"g", b"m", b"z"]).await;
    let (backend, tenant, run) = (world.backend(), world.tenant, world.run);
    let (hasty, other) = (WorkerId::from_raw(1), WorkerId::from_raw(2));
    let granted = backend.claim_next_available(tenant, run, hasty).await.unwrap();
    let again = backend.claim_next_available(tenant, run, hasty).await;
    let Err(ClaimError::Throttled(throttled)) = again else { panic!("{again:?}") };
    let lease_left = granted.lease.deadline().as_millis() - throttled.retry_after.as_millis();
    assert_eq!(lease_left, LEASE_MS - COOLDOWN_MS, "the refusal names the end of the cooldown");
    backend.claim_next_available(tenant, run, other).await.unwrap();
    harness.advance(COOLDOWN_MS - 1).await;
    let early = backend.claim_next_available(tenant, run, hasty).await;
    assert!(matches!(early, Err(ClaimError::Throttled(_))), "{early:?}");
    harness.advance(1).await;
    backend.claim_next_available(tenant, run, hasty).await.unwrap();
    // A refused claim is not throttled.
    let third = WorkerId::from_raw(3);
    for _ in 0..2 {
        let none = backend.claim_next_available(tenant, run, third).await;
        assert!(matches!(none, Err(ClaimError::NoneAvailable(_))), "{none:?}");
    }
}

/// A split request ends with the lease of its holder. Its requester may send another at once.
pub async fn split_request_ends_with_the_lease<H: Harness>(harness: &H) {
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

/// A split answers the request, and the requester may send another.
pub async fn split_answers_the_request<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let (requester, other) = (WorkerId::from_raw(2), WorkerId::from_raw(3));
    backend.request_split(tenant, key, requester, LEASE_MS).await.unwrap();
    assert_eq!(requester_of(&world, &lease).await, Some(requester));
    let whole = ShardSpecRef::new(b"a", b"z", b"meta");
    let plan = plan_split_residual(whole, CursorUpdate::initial(), b"m").unwrap();
    backend.split_residual(tenant, &lease, &plan, op(1)).await.unwrap();
    assert_eq!(requester_of(&world, &lease).await, None, "the request is answered");
    backend.request_split(tenant, key, other, LEASE_MS).await.unwrap();
    assert_eq!(requester_of(&world, &lease).await, Some(other));
}

/// A split request lasts until its timeout. Repeating it extends the timeout.
pub async fn split_request_expires_unless_repeated<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let (requester, other) = (WorkerId::from_raw(2), WorkerId::from_raw(3));
    backend.request_split(tenant, key, requester, 100).await.unwrap();
    harness.advance(60).await;
    backend.request_split(tenant, key, requester, 100).await.unwrap();
    harness.advance(99).await;
    assert_eq!(
        requester_of(&world, &lease).await,
        Some(requester),
        "the repeated request ends later"
    );
    let second = backend.request_split(tenant, key, other, 100).await;
    assert_refused!(second, SplitRequestError::SplitAlreadyRequested(_));
    harness.advance(1).await;
    assert_eq!(requester_of(&world, &lease).await, None, "the request has expired");
    backend.request_split(tenant, key, other, 100).await.unwrap();
    assert_eq!(requester_of(&world, &lease).await, Some(other));
}

/// A split request that expires at once is refused.
pub async fn expired_split_request_is_refused<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    let asked = backend.request_split(tenant, key, WorkerId::from_raw(2), 0).await;
    assert_refused!(asked, SplitRequestError::SplitRequestOver(_));
    assert_eq!(requester_of(&world, &lease).await, None);
    backend.request_split(tenant, key, WorkerId::from_raw(3), 1).await.unwrap();
    assert_eq!(requester_of(&world, &lease).await, Some(WorkerId::from_raw(3)));
}

/// A split request and a refusal end with the lease of the holder.
pub async fn split_request_is_hidden_from_the_next_holder<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let requester = WorkerId::from_raw(9);
    let first = world.acquire(0, 1).await;
    backend.request_split(tenant, key, requester, 10 * LEASE_MS).await.unwrap();
    backend.release(tenant, &first, op(1)).await.unwrap();
    let second = world.acquire(0, 2).await;
    assert_eq!(requester_of(&world, &second).await, None, "the request was for the first holder");
    backend.request_split(tenant, key, requester, 10 * LEASE_MS).await.unwrap();
    assert_eq!(requester_of(&world, &second).await, Some(requester));
    backend.decline_split(tenant, &second, 10 * LEASE_MS).await.unwrap();
    harness.advance(LEASE_MS).await;
    let third = world.acquire(0, 3).await;
    assert_eq!(requester_of(&world, &third).await, None);
    backend.request_split(tenant, key, requester, LEASE_MS).await.unwrap();
    assert_eq!(
        requester_of(&world, &third).await,
        Some(requester),
        "only the second holder declined"
    );
}

/// A replay carries no notice, because the caller may no longer hold the shard.
pub async fn replay_carries_no_notice<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    let lease = world.acquire(0, 1).await;
    backend.request_split(tenant, key, WorkerId::from_raw(2), LEASE_MS).await.unwrap();
    backend.pause_run(tenant, world.run, op(1)).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let first = backend.checkpoint(tenant, &lease, cursor, op(2)).await.unwrap();
    let notice = notice_or_renew(&world, &lease, first.into_inner()).await;
    assert!(notice.paused && notice.split_request.is_some(), "{notice:?}");
    let again = backend.checkpoint(tenant, &lease, cursor, op(2)).await.unwrap();
    assert_eq!(again, IdempotentOutcome::Replayed(None));
}

/// Candidates are available shards, at most `limit`, in an order that depends on the worker.
pub async fn candidates_can_be_acquired<H: Harness>(harness: &H) {
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
    assert_ne!(first(1).await, first(2).await, "neighbouring workers start with different shards");
    harness.advance(LEASE_MS).await;
    assert_eq!(candidates(1, 10).await.0, [0, 3, 4], "the lease has expired");
    for shard in candidates(2, 10).await.0 {
        world.acquire(shard, 2).await;
    }
    assert_eq!(candidates(3, 10).await.0, []);
}

/// The requester of a part, from a notice to the holder of a lease.
async fn requester_of<H: Harness>(world: &World<'_, H>, lease: &Lease) -> Option<WorkerId> {
    world.notice(lease).await.split_request.map(|request| request.requester)
}

/// The notice of an answer or, if the answer has none, of the next renewal.
async fn notice_or_renew<H: Harness>(
    world: &World<'_, H>,
    lease: &Lease,
    notice: Option<HolderNotice>,
) -> HolderNotice {
    match notice {
        Some(notice) => notice,
        None => world.notice(lease).await,
    }
}
