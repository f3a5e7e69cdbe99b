//! Lists of a run's shards.

use shardwright_contracts::{CursorUpdate, ShardId, ShardSpecRef, plan_split_residual};

use super::{Harness, LEASE_MS, World, op};
use crate::async_traits::{AsyncCoordinationBackend as _, AsyncRunManagement as _};
use crate::status::{ParkReason, ShardStatus};
use crate::summary::ShardFilter;

async fn listed<H: Harness>(world: &World<'_, H>, filter: ShardFilter) -> Vec<ShardId> {
    let listed = world.backend().list_shards(world.tenant, world.run, filter).await.unwrap();
    listed.into_iter().map(|summary| summary.shard).collect()
}

/// There is one shard of each kind, and each filter finds its own.
pub async fn list_shows_what_passes_its_filter<H: Harness>(harness: &H) {
    let bounds: [&[u8]; 6] = [b"a", b"c", b"e", b"g", b"i", b"k"];
    let world = World::new(harness, &bounds).await;
    let (backend, tenant) = (world.backend(), world.tenant);
    let [free, held, done, parked, split] = [0, 1, 2, 3, 4].map(ShardId::from_raw);
    world.acquire_id(held, 1).await;
    let lease = world.acquire_id(done, 1).await;
    world.complete(&lease, 1).await;
    let lease = world.acquire_id(parked, 1).await;
    let detail = b"row 7";
    backend.park_shard(tenant, &lease, ParkReason::Poisoned, detail, op(2)).await.unwrap();
    let lease = world.acquire_id(split, 1).await;
    let spec = ShardSpecRef::new(b"i", b"k", b"meta");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"j").unwrap();
    let made = backend.split_residual(tenant, &lease, &plan, op(3)).await.unwrap();
    let residual = made.into_inner().residual;
    let everything = [free, held, done, parked, split, residual];
    let of = |status| ShardFilter { status: Some(status), ..ShardFilter::all() };
    let leased = ShardFilter { is_leased: Some(true), ..ShardFilter::all() };
    let roots = ShardFilter { root_only: true, ..ShardFilter::active() };
    for (filter, expected) in [
        (ShardFilter::all(), &everything[..]),
        (ShardFilter::active(), &[free, held, split, residual]),
        (ShardFilter::available(), &[free, residual]),
        (ShardFilter::parked(), &[parked]),
        (of(ShardStatus::Done), &[done]),
        (of(ShardStatus::Split), &[]),
        (leased, &[held, split]),
        (roots, &[free, held, split]),
    ] {
        assert_eq!(listed(&world, filter).await, expected, "{filter:?}");
    }
    let summary = world.shard(parked).await;
    let park = (summary.park_reason, summary.park_detail.as_deref());
    assert_eq!(park, (Some(ParkReason::Poisoned), Some(&detail[..])));
    let (parent, child) = (world.shard(split).await, world.shard(residual).await);
    assert_eq!((parent.spawned_count, child.parent), (1, Some(split)));
}

/// Shards are listed in key order, not by id. An expired lease counts as none.
pub async fn list_is_in_key_order_and_current<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"m", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let spec = ShardSpecRef::new(b"a", b"m", b"meta");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"f").unwrap();
    let made = world.backend().split_residual(world.tenant, &lease, &plan, op(1)).await;
    let residual = made.unwrap().into_inner().residual;
    let [left, right] = [0, 1].map(ShardId::from_raw);
    assert_eq!(listed(&world, ShardFilter::all()).await, [left, residual, right]);
    assert_eq!(listed(&world, ShardFilter::available()).await, [residual, right]);
    harness.advance(LEASE_MS).await;
    assert_eq!(listed(&world, ShardFilter::available()).await, [left, residual, right]);
    assert_eq!(world.shard(left).await.lease_deadline, None);
}
