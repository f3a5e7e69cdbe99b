//! One effect per operation id.

use shardwright_contracts::{CursorUpdate, ShardId};

use super::{Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::error::{CheckpointError, ParkError, ReleaseError, UnparkError};
use crate::status::ParkReason;

/// A worker that heard no answer gets it later, even when it has lost the shard.
pub async fn a_replay_answers_after_the_end_of_the_lease<H: Harness>(harness: &H) {
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

/// Completing twice with one id is completing once.
pub async fn a_replay_answers_after_the_end_of_the_shard<H: Harness>(harness: &H) {
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

/// The same id with other parameters, or for another operation, is a caller's mistake.
pub async fn an_id_used_for_something_else_is_a_conflict<H: Harness>(harness: &H) {
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

/// After sixteen more operations the first is forgotten; its retry finds the cursor ahead.
pub async fn a_forgotten_operation_is_judged_anew<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    for id in 0..17 {
        world.checkpoint(&lease, &format!("c{id:02}"), id).await;
    }
    let first = CursorUpdate::at(b"c00");
    let anew = world.backend().checkpoint(world.tenant, &lease, first, op(0)).await;
    assert!(matches!(anew, Err(CheckpointError::CursorRegression(_))), "{anew:?}");
    assert!(world.checkpoint(&lease, "c01", 1).await, "the second is still remembered");
}

/// Unparking is an operation like any other.
pub async fn an_unpark_is_replayed<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant, key) = (world.backend(), world.tenant, world.key(0));
    backend.park_shard(tenant, &lease, ParkReason::Other, b"", op(1)).await.unwrap();
    assert!(!backend.unpark_shard(tenant, key, op(2)).await.unwrap().is_replay());
    assert!(backend.unpark_shard(tenant, key, op(2)).await.unwrap().is_replay());
    assert_refused!(backend.unpark_shard(tenant, key, op(3)).await, UnparkError::NotParked(_));
}

/// Whoever heard nothing of its release hears it later, and takes nothing from the next owner.
pub async fn a_release_is_replayed<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    assert!(!backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    assert!(backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    let other = world.acquire(0, 2).await;
    assert!(backend.release(tenant, &lease, op(1)).await.unwrap().is_replay());
    assert!(!world.checkpoint(&other, "c", 2).await, "the next owner holds it still");
    let reused = backend.checkpoint(tenant, &other, CursorUpdate::at(b"d"), op(1)).await;
    assert!(matches!(reused, Err(CheckpointError::OpIdConflict(_))), "{reused:?}");
    let anew = backend.release(tenant, &lease, op(3)).await;
    assert!(matches!(anew, Err(ReleaseError::StaleFence(_))), "{anew:?}");
}
