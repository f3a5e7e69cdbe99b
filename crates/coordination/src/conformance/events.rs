//! Events of changes.

use shardwright_contracts::{CursorUpdate, ShardId};

use super::{Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::error::{CheckpointError, CompleteError, RenewError, RunTransitionError, UnparkError};
use crate::events::{EventKind, RedactedKey};
use crate::lease::Lease;
use crate::status::ParkReason;

async fn emitted<H: Harness>(harness: &H, world: &World<'_, H>) -> Vec<EventKind> {
    let events = harness.take_events(world.tenant).await;
    assert!(events.iter().all(|event| (event.tenant, event.run) == (world.tenant, world.run)));
    assert!(events.is_sorted_by_key(|event| event.at), "times never decrease");
    events.into_iter().map(|event| event.kind).collect()
}

/// Each change emits its event once. A replay emits none.
pub async fn changes_emit_events_once_and_in_order<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let other = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant, shard) = (world.backend(), world.tenant, ShardId::from_raw(0));
    let started = [EventKind::RunCreated, EventKind::RunActivated { shard_count: 1 }];
    assert_eq!(emitted(harness, &world).await, started);
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "c", 1).await;
    assert!(world.checkpoint(&lease, "c", 1).await);
    let new_deadline = backend.renew(tenant, &lease).await.unwrap().new_deadline;
    let reason = ParkReason::NotFound;
    backend.park_shard(tenant, &lease, reason, b"why", op(2)).await.unwrap();
    backend.unpark_shard(tenant, world.key(0), op(3)).await.unwrap();
    let again = world.acquire(0, 2).await;
    backend.release(tenant, &again, op(4)).await.unwrap();
    backend.release(tenant, &again, op(4)).await.unwrap();
    let kinds = emitted(harness, &world).await;
    let EventKind::ShardUnparked { new_fence_epoch, .. } = kinds[4] else { panic!("{kinds:?}") };
    assert!(lease.fence() < new_fence_epoch && new_fence_epoch < again.fence());
    let acquired = |lease: &Lease| EventKind::ShardAcquired {
        shard,
        worker: lease.owner(),
        fence_epoch: lease.fence(),
    };
    let last_key = RedactedKey(Some(b"c"[..].into()));
    let expected = [
        acquired(&lease),
        EventKind::ShardCheckpointed { shard, last_key },
        EventKind::ShardLeaseRenewed { shard, new_deadline },
        EventKind::ShardParked { shard, reason },
        EventKind::ShardUnparked { shard, new_fence_epoch },
        acquired(&again),
        EventKind::ShardReleased { shard },
    ];
    assert_eq!(kinds, expected);
    assert_eq!(emitted(harness, &other).await, started, "events of other tenants are left out");
}

/// A refusal emits no event.
pub async fn refusals_emit_no_event<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let zombie = world.acquire(0, 1).await;
    harness.advance(LEASE_MS).await;
    let owner = world.acquire(0, 2).await;
    world.checkpoint(&owner, "m", 1).await;
    emitted(harness, &world).await;
    let cursor = CursorUpdate::at(b"c");
    assert_refused!(backend.renew(tenant, &zombie).await, RenewError::StaleFence(_));
    let moved = backend.checkpoint(tenant, &owner, cursor, op(2)).await;
    assert_refused!(moved, CheckpointError::CursorRegression(_));
    let completed = backend.complete(tenant, &zombie, cursor, op(3)).await;
    assert_refused!(completed, CompleteError::StaleFence(_));
    let unparked = backend.unpark_shard(tenant, world.key(0), op(4)).await;
    assert_refused!(unparked, UnparkError::NotParked(_));
    let ended = backend.complete_run(tenant, world.run, op(5)).await;
    assert_refused!(ended, RunTransitionError::RunUnfinished(_));
    assert_eq!(emitted(harness, &world).await, []);
}
