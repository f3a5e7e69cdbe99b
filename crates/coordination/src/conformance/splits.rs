//! Splits lose no key and duplicate none.

use shardwright_contracts::{
    CursorUpdate, ShardId, ShardSpecRef, WorkerId, plan_split_replace, plan_split_residual,
};

use super::{Harness, World, assert_refused, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::error::{CheckpointError, SplitError};
use crate::status::{ParkReason, ShardStatus};

fn whole() -> ShardSpecRef<'static> {
    ShardSpecRef::new(b"a", b"z", b"meta")
}

async fn leaves<H: Harness>(world: &World<'_, H>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let shards = world.shards().await;
    let live = shards.into_iter().filter(|shard| shard.status != ShardStatus::Split);
    live.map(|shard| (shard.start.into(), shard.end.into())).collect()
}

/// The parent is split, its children are active, and they tile its range.
pub async fn children_tile_the_parent_and_can_be_acquired<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "c", 1).await;
    let cursor = CursorUpdate::at(b"c");
    let plan = plan_split_replace(whole(), cursor, &[b"g", b"p"]).unwrap();
    let split = world.backend().split_replace(world.tenant, &lease, &plan, op(2)).await.unwrap();
    let children = split.into_inner().children;
    assert_eq!(world.shard(ShardId::from_raw(0)).await.status, ShardStatus::Split);
    let bounds: Vec<(Vec<u8>, Vec<u8>)> =
        [("a", "g"), ("g", "p"), ("p", "z")].map(|(start, end)| (start.into(), end.into())).into();
    assert_eq!(leaves(&world).await, bounds);
    for (child, id) in children.iter().zip(10..) {
        let lease = world.acquire_id(*child, 1).await;
        world.complete(&lease, id).await;
        assert_eq!(world.shard(*child).await.parent, Some(ShardId::from_raw(0)));
    }
    let first = world.shard(children[0]).await;
    assert_eq!(first.last_key.as_deref(), Some(&b"c"[..]), "the first child has the progress");
    world.backend().complete_run(world.tenant, world.run, op(3)).await.unwrap();
}

/// A retry of a replacement returns the same children and makes no others.
pub async fn replaced_split_returns_the_same_children<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let plan = plan_split_replace(whole(), CursorUpdate::initial(), &[b"m"]).unwrap();
    let first = backend.split_replace(tenant, &lease, &plan, op(1)).await.unwrap();
    let again = backend.split_replace(tenant, &lease, &plan, op(1)).await.unwrap();
    assert!(!first.is_replay() && again.is_replay());
    assert_eq!(first.into_inner(), again.into_inner());
    assert_eq!(world.shards().await.len(), 3);
    let other = plan_split_replace(whole(), CursorUpdate::initial(), &[b"n"]).unwrap();
    let conflict = backend.split_replace(tenant, &lease, &other, op(1)).await;
    assert!(matches!(conflict, Err(SplitError::OpIdConflict(_))), "{conflict:?}");
}

/// The parent keeps its lease and its cursor in a smaller range.
pub async fn residual_split_keeps_the_parent_active<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "c", 1).await;
    let cursor = CursorUpdate::at(b"c");
    let plan = plan_split_residual(whole(), cursor, b"m").unwrap();
    let split = world.backend().split_residual(world.tenant, &lease, &plan, op(2)).await.unwrap();
    let residual = split.into_inner().residual;
    world.checkpoint(&lease, "l", 3).await;
    let outside = CursorUpdate::at(b"m");
    let moved = world.backend().checkpoint(world.tenant, &lease, outside, op(4)).await;
    assert_refused!(moved, CheckpointError::CursorOutOfBounds(_));
    let worker = WorkerId::from_raw(2);
    let key = shardwright_contracts::ShardKey::new(world.run, residual);
    let restored = world.backend().acquire_and_restore(world.tenant, key, worker).await.unwrap();
    let spec = restored.spec.as_spec_ref();
    assert_eq!((spec.start(), spec.end()), (&b"m"[..], &b"z"[..]));
    assert_eq!(restored.cursor.as_update(), CursorUpdate::initial());
}

/// The op log evicts a residual split, but the list of spawned shards keeps it.
pub async fn residual_split_outlives_the_op_log<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let plan = |cut| plan_split_residual(whole(), CursorUpdate::initial(), cut).unwrap();
    let first = backend.split_residual(tenant, &lease, &plan(b"m"), op(1)).await.unwrap();
    for id in 100..117 {
        world.checkpoint(&lease, "c", id).await;
    }
    let again = backend.split_residual(tenant, &lease, &plan(b"m"), op(1)).await.unwrap();
    assert!(again.is_replay());
    assert_eq!(first.into_inner(), again.into_inner());
    let conflict = backend.split_residual(tenant, &lease, &plan(b"k"), op(1)).await;
    assert!(matches!(conflict, Err(SplitError::OpIdConflict(_))), "{conflict:?}");
    assert_eq!(world.shards().await.len(), 2);
}

/// A plan for an earlier state of the shard is refused.
pub async fn split_plan_for_another_state_is_refused<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let plan = plan_split_residual(whole(), CursorUpdate::initial(), b"g").unwrap();
    world.checkpoint(&lease, "h", 1).await;
    let refused = world.backend().split_residual(world.tenant, &lease, &plan, op(2)).await;
    assert!(matches!(refused, Err(SplitError::SplitInvalid(_))), "{refused:?}");
    let elsewhere = ShardSpecRef::new(b"a", b"x", b"meta");
    let plan = plan_split_replace(elsewhere, CursorUpdate::initial(), &[b"m"]).unwrap();
    let refused = world.backend().split_replace(world.tenant, &lease, &plan, op(3)).await;
    assert!(matches!(refused, Err(SplitError::SplitInvalid(_))), "{refused:?}");
    assert_eq!(leaves(&world).await.len(), 1);
}

/// An unparked shard keeps its cursor, and the worker that parked it is fenced.
pub async fn unpark_keeps_the_cursor_and_raises_the_fence<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    world.checkpoint(&lease, "k", 1).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    backend.park_shard(tenant, &lease, ParkReason::Poisoned, b"row", op(2)).await.unwrap();
    let parked = world.shard(ShardId::from_raw(0)).await;
    assert_eq!(parked.park_reason, Some(ParkReason::Poisoned));
    assert_eq!(parked.park_detail.as_deref(), Some(&b"row"[..]));
    backend.unpark_shard(tenant, world.key(0), op(3)).await.unwrap();
    let next = world.acquire(0, 2).await;
    assert!(
        next.fence().as_raw() > lease.fence().as_raw() + 1,
        "one for the unpark, one for the acquire"
    );
    let summary = world.shard(ShardId::from_raw(0)).await;
    assert_eq!((summary.last_key.as_deref(), summary.park_reason), (Some(&b"k"[..]), None));
}
