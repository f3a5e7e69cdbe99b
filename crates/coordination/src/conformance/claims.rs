//! Taking whichever shard can be had.

use std::collections::BTreeSet;

use shardwright_contracts::{CursorUpdate, RunId, WorkerId};

use super::{COOLDOWN_MS, Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
};
use crate::error::{ClaimError, SplitRequestError};

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
    let seen = backend.renew(tenant, &lease).await.unwrap().notice.split_request.unwrap();
    assert_eq!(seen.asker, idle);
    backend.decline_split(tenant, &lease, 100).await.unwrap();
    let asked = backend.request_split(tenant, key, idle, LEASE_MS).await;
    assert_refused!(asked, SplitRequestError::SplitDeclined(_));
    harness.advance(100).await;
    backend.request_split(tenant, key, idle, LEASE_MS).await.unwrap();
    let cursor = CursorUpdate::at(b"c");
    let noticed = backend.checkpoint(tenant, &lease, cursor, op(1)).await.unwrap().into_inner();
    assert_eq!(noticed.split_request.map(|request| request.asker), Some(idle));
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
    let (backend, tenant, asker) = (world.backend(), world.tenant, WorkerId::from_raw(9));
    world.acquire(0, 1).await;
    harness.advance(LEASE_MS / 2).await;
    world.acquire(1, 2).await;
    backend.request_split(tenant, world.key(0), asker, 10 * LEASE_MS).await.unwrap();
    let elsewhere = backend.request_split(tenant, world.key(1), asker, LEASE_MS).await;
    assert_refused!(elsewhere, SplitRequestError::SplitAlreadyRequested(_));
    harness.advance(LEASE_MS / 2).await;
    let over = backend.request_split(tenant, world.key(0), asker, LEASE_MS).await;
    assert_refused!(over, SplitRequestError::NotLeased(_));
    backend.request_split(tenant, world.key(1), asker, LEASE_MS).await.unwrap();
}
