//! One effect per operation id.

use shardwright_contracts::{CursorUpdate, ShardId};

use super::{Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::error::{CheckpointError, ParkError, ReleaseError, UnparkError};
use crate::status::ParkReason;

/// A worker whose answer was lost gets it later, even after it lost the shard.
pub async fn replay_works_after_the_lease_expired<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    assert!(!world.checkpoint(&lease, "c", 1).await);
    harness.advance(LEASE_MS).await;
    assert!(world.checkpoint(&lease, "c", 1).await);
    let other = world.acquire(0, 2).await;
    world.checkpoint(&other, "e", 2).await;
    assert!(world.checkpoint(&lease, "c", 1).await);
    let summary = world.shard(ShardId::from_raw(0)).await;
    assert_eq!(summary.last_key.as_deref(), Some(&b"e"[..]), "a replay changes nothing");
}

/// Completing twice with one id has one effect.
pub async fn replay_works_after_the_shard_is_done<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let cursor = CursorUpdate::at(b"x");
    let backend = world.backend();
    assert!(!backend.complete(world.tenant, &lease, cursor, op(1)).await.unwrap().is_replay());
    assert!(backend.complete(world.tenant, &lease, cursor, op(1)).await.unwrap().is_replay());
    backend.fail_run(world.tenant, world.run, op(2)).await.unwrap();
    assert!(backend.complete(world.tenant, &lease, cursor, op(1)).await.unwrap().is_replay());
    assert!(backend.fail_run(world.tenant, world.run, op(2)).await.unwrap().is_replay());
}

/// The same id with other parameters, or for another operation, is a conflict.
pub async fn op_id_of_another_request_is_a_conflict<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "c", 1).await;
    let other = CursorUpdate::at(b"d");
    let conflict = world.backend().checkpoint(world.tenant, &lease, other, op(1)).await;
    assert!(matches!(conflict, Err(CheckpointError::OpIdConflict(_))), "{conflict:?}");
    let reason = ParkReason::Other;
    let conflict = world.backend().park_shard(world.tenant, &lease, reason, b"", op(1)).await;
    assert!(matches!(conflict, Err(ParkError::OpIdConflict(_))), "{conflict:?}");
}

/// Sixteen later operations evict the first. Its retry is refused because the cursor is ahead.
pub async fn evicted_operation_is_checked_as_new<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    for id in 0..17 {
        world.checkpoint(&lease, &format!("c{id:02}"), id).await;
    }
    let first = CursorUpdate::at(b"c00");
    let next = world.backend().checkpoint(world.tenant, &lease, first, op(0)).await;
    assert!(matches!(next, Err(CheckpointError::CursorRegression(_))), "{next:?}");
    assert!(world.checkpoint(&lease, "c01", 1).await, "the second is not evicted");
}

/// Unparking has an operation id, too.
pub async fn unpark_is_replayed<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    backend.park_shard(tenant, &lease, ParkReason::Other, b"", op(1)).await.unwrap();
    assert!(!backend.unpark_shard(tenant, key, op(2)).await.unwrap().is_replay());
    assert!(backend.unpark_shard(tenant, key, op(2)).await.unwrap().is_replay());
    assert_refused!(backend.unpark_shard(tenant, key, op(3)).await, UnparkError::NotParked(_));
}

/// A retried release is replayed and does not end the next owner's lease.
pub async fn release_is_replayed<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    assert!(!backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    assert!(backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    let other = world.acquire(0, 2).await;
    assert!(backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    assert!(!world.checkpoint(&other, "c", 2).await, "the next owner still holds it");
    let reused = backend.checkpoint(tenant, &other, CursorUpdate::at(b"d"), op(1)).await;
    assert!(matches!(reused, Err(CheckpointError::OpIdConflict(_))), "{reused:?}");
    let next = backend.release(tenant, &lease, op(3)).await;
    assert!(matches!(next, Err(ReleaseError::StaleFence(_))), "{next:?}");
}
