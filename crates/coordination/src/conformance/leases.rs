//! Owners, fences, deadlines and cursors.

use shardwright_contracts::{
    CursorUpdate, ShardId, ShardSpecRef, WorkerId, plan_split_replace, plan_split_residual,
};

use super::{Harness, LEASE_MS, World, op};
use crate::async_traits::AsyncCoordinationBackend as _;
use crate::error::{
    AcquireError, CheckpointError, CompleteError, DeclineError, ParkError, ReleaseError,
    RenewError, SplitError,
};
use crate::status::{ParkReason, ShardStatus};

/// Acquire raises the fence. No operation of a holder changes it.
pub async fn fences_rise_with_every_owner<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let first = world.acquire(0, 1).await;
    world.checkpoint(&first, "c", 1).await;
    world.backend().renew(world.tenant, &first).await.unwrap();
    world.backend().release(world.tenant, &first, op(2)).await.unwrap();
    let second = world.acquire(0, 2).await;
    assert!(second.fence() > first.fence());
    harness.advance(LEASE_MS).await;
    let third = world.acquire(0, 1).await;
    assert!(third.fence() > second.fence());
}

/// The holder owns the shard until the deadline. At the deadline any worker can acquire it.
pub async fn lease_expires_at_its_deadline<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    harness.advance(LEASE_MS - 1).await;
    let other = WorkerId::from_raw(2);
    let early = world.backend().acquire_and_restore(world.tenant, world.key(0), other).await;
    assert!(matches!(early, Err(AcquireError::AlreadyLeased(_))), "{early:?}");
    world.checkpoint(&lease, "c", 1).await;
    harness.advance(1).await;
    let cursor = CursorUpdate::at(b"d");
    let late = world.backend().checkpoint(world.tenant, &lease, cursor, op(2)).await;
    assert!(matches!(late, Err(CheckpointError::LeaseExpired(_))), "{late:?}");
    let renewal = world.backend().renew(world.tenant, &lease).await;
    assert!(matches!(renewal, Err(RenewError::LeaseExpired(_))), "{renewal:?}");
    world.acquire(0, 2).await;
}

/// A renewal in time keeps the shard beyond the first deadline.
pub async fn renewal_moves_only_the_deadline<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "c", 1).await;
    harness.advance(LEASE_MS / 2).await;
    let renewed = world.backend().renew(world.tenant, &lease).await.unwrap();
    assert!(renewed.new_deadline > lease.deadline());
    let before = world.shard(ShardId::from_raw(0)).await;
    assert_eq!(before.last_key.as_deref(), Some(&b"c"[..]));
    harness.advance(LEASE_MS / 2 + 1).await;
    assert!(!world.checkpoint(&lease, "d", 2).await, "the stored deadline decides");
}

/// After another acquire, every operation of the former owner is refused.
pub async fn zombie_is_fenced_everywhere<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let zombie = world.acquire(0, 1).await;
    harness.advance(LEASE_MS).await;
    let owner = world.acquire(0, 2).await;
    let cursor = CursorUpdate::at(b"c");
    let renewal = backend.renew(tenant, &zombie).await;
    assert!(matches!(renewal, Err(RenewError::StaleFence(_))), "{renewal:?}");
    let checkpoint = backend.checkpoint(tenant, &zombie, cursor, op(1)).await;
    assert!(matches!(checkpoint, Err(CheckpointError::StaleFence(_))), "{checkpoint:?}");
    let complete = backend.complete(tenant, &zombie, cursor, op(2)).await;
    assert!(matches!(complete, Err(CompleteError::StaleFence(_))), "{complete:?}");
    let park = backend.park_shard(tenant, &zombie, ParkReason::Other, b"", op(3)).await;
    assert!(matches!(park, Err(ParkError::StaleFence(_))), "{park:?}");
    let release = backend.release(tenant, &zombie, op(4)).await;
    assert!(matches!(release, Err(ReleaseError::StaleFence(_))), "{release:?}");
    let spec = ShardSpecRef::new(b"a", b"z", b"meta");
    let residual = plan_split_residual(spec, CursorUpdate::initial(), b"m").unwrap();
    let split = backend.split_residual(tenant, &zombie, &residual, op(5)).await;
    assert!(matches!(split, Err(SplitError::StaleFence(_))), "{split:?}");
    let children = plan_split_replace(spec, CursorUpdate::initial(), &[b"m"]).unwrap();
    let replaced = backend.split_replace(tenant, &zombie, &children, op(6)).await;
    assert!(matches!(replaced, Err(SplitError::StaleFence(_))), "{replaced:?}");
    let declined = backend.decline_split(tenant, &zombie, 100).await;
    assert!(matches!(declined, Err(DeclineError::StaleFence(_))), "{declined:?}");
    assert!(!world.checkpoint(&owner, "b", 7).await);
}

/// A worker whose lease expired acquires again with a new fence.
pub async fn worker_may_reacquire_after_expiry<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let first = world.acquire(0, 1).await;
    let again =
        world.backend().acquire_and_restore(world.tenant, world.key(0), first.owner()).await;
    assert!(matches!(again, Err(AcquireError::AlreadyLeased(_))), "{again:?}");
    harness.advance(LEASE_MS).await;
    let second = world.acquire(0, 1).await;
    let stale = world.backend().renew(world.tenant, &first).await;
    assert!(matches!(stale, Err(RenewError::StaleFence(_))), "{stale:?}");
    world.checkpoint(&second, "c", 1).await;
}

/// A released shard is available before the deadline.
pub async fn released_shard_can_be_acquired_at_once<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.backend().release(world.tenant, &lease, op(1)).await.unwrap();
    let gone = world.backend().renew(world.tenant, &lease).await;
    assert!(matches!(gone, Err(RenewError::StaleFence(_))), "{gone:?}");
    world.acquire(0, 2).await;
}

/// Done and parked shards have no holder.
pub async fn done_or_parked_shard_has_no_lease<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let (done, parked) = (world.acquire(0, 1).await, world.acquire(1, 1).await);
    world.complete(&done, 1).await;
    let reason = ParkReason::PermissionDenied;
    world.backend().park_shard(world.tenant, &parked, reason, b"why", op(2)).await.unwrap();
    for (shard, status) in [(0, ShardStatus::Done), (1, ShardStatus::Parked)] {
        let summary = world.shard(ShardId::from_raw(shard)).await;
        assert_eq!((summary.status, summary.lease_deadline), (status, None));
    }
    assert_eq!(world.shard(ShardId::from_raw(1)).await.park_reason, Some(reason));
    let renewal = world.backend().renew(world.tenant, &done).await;
    assert!(matches!(renewal, Err(RenewError::ShardTerminal(_))), "{renewal:?}");
}

/// A checkpoint backwards or outside is refused and changes nothing.
pub async fn cursors_only_move_forward_within_the_shard<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"b", b"y"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "m", 1).await;
    for (key, id) in [("l", 2), ("a", 3), ("y", 4), ("z", 5)] {
        let cursor = CursorUpdate::at(key.as_bytes());
        let refused = world.backend().checkpoint(world.tenant, &lease, cursor, op(id)).await;
        assert!(
            matches!(
                refused,
                Err(CheckpointError::CursorRegression(_) | CheckpointError::CursorOutOfBounds(_))
            ),
            "{key}: {refused:?}"
        );
    }
    let nothing = CursorUpdate::initial();
    let missing = world.backend().checkpoint(world.tenant, &lease, nothing, op(6)).await;
    assert!(matches!(missing, Err(CheckpointError::CheckpointMissingKey(_))), "{missing:?}");
    let summary = world.shard(ShardId::from_raw(0)).await;
    assert_eq!(summary.last_key.as_deref(), Some(&b"m"[..]));
}

/// A shard without items is completed without a key.
pub async fn empty_shard_completes_with_the_initial_cursor<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let nothing = CursorUpdate::initial();
    world.backend().complete(world.tenant, &lease, nothing, op(1)).await.unwrap();
    let summary = world.shard(ShardId::from_raw(0)).await;
    assert_eq!((summary.status, summary.last_key), (ShardStatus::Done, None));
}

/// The next owner gets the cursor, token included.
pub async fn checkpointed_cursor_is_restored<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let cursor = CursorUpdate::new(Some(b"c"), Some(b"token"));
    world.backend().checkpoint(world.tenant, &lease, cursor, op(1)).await.unwrap();
    harness.advance(LEASE_MS).await;
    let worker = WorkerId::from_raw(2);
    let restored =
        world.backend().acquire_and_restore(world.tenant, world.key(0), worker).await.unwrap();
    assert_eq!(restored.cursor.as_update(), cursor);
    let spec = restored.spec.as_spec_ref();
    assert_eq!((spec.start(), spec.end(), spec.metadata()), (&b"a"[..], &b"z"[..], &b"meta"[..]));
}
