//! Runs and shards of another tenant are not found, even with valid ids and leases.

use shardwright_contracts::{
    CursorUpdate, RunId, ShardSpecRef, WorkerId, plan_split_replace, plan_split_residual,
};

use super::{Harness, LEASE_MS, World, assert_refused, op};
use crate::async_traits::{
    AsyncCoordinationBackend as _, AsyncRunManagement as _, AsyncShardClaiming as _,
};
use crate::error::{
    AcquireError, CheckpointError, ClaimError, CompleteError, DeclineError, ParkError,
    RegisterShardsError, ReleaseError, RenewError, RunQueryError, RunTransitionError, SplitError,
    SplitRequestError, UnparkError,
};
use crate::status::ParkReason;
use crate::summary::ShardFilter;

/// Every request for a run of another tenant is refused as not found.
pub async fn other_tenant_finds_no_run<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let (backend, stranger, run) = (world.backend(), harness.fresh_tenant(), world.run);
    let worker = WorkerId::from_raw(1);
    assert_refused!(backend.get_run(stranger, run).await, RunQueryError::RunNotFound(_));
    let progress = backend.get_run_progress(stranger, run).await;
    assert_refused!(progress, RunQueryError::RunNotFound(_));
    let listed = backend.list_shards(stranger, run, ShardFilter::all()).await;
    assert_refused!(listed, RunQueryError::RunNotFound(_));
    let candidates = backend.collect_claim_candidates(stranger, run, worker, 3).await;
    assert_refused!(candidates, RunQueryError::RunNotFound(_));
    let claimed = backend.claim_next_available(stranger, run, worker).await;
    assert_refused!(claimed, ClaimError::RunNotFound(_));
    let shards = super::manifest(&[b"a", b"z"]);
    let registered = backend.register_shards(stranger, run, &shards, op(1)).await;
    assert_refused!(registered, RegisterShardsError::RunNotFound(_));
    let ended = [
        backend.complete_run(stranger, run, op(2)).await,
        backend.fail_run(stranger, run, op(3)).await,
        backend.cancel_run(stranger, run, op(4)).await,
        backend.pause_run(stranger, run, op(5)).await,
        backend.resume_run(stranger, run, op(6)).await,
    ];
    for answer in ended {
        assert_refused!(answer, RunTransitionError::RunNotFound(_));
    }
    let record = backend.get_run(world.tenant, run).await.unwrap();
    assert!(!record.status.is_terminal() && !record.paused, "the owner is not affected");
}

/// Every request for a shard of another tenant is refused as not found, even with a valid lease.
pub async fn other_tenant_finds_no_shard<H: Harness>(harness: &H) {
    let world = World::new(harness, &[b"a", b"z"]).await;
    let lease = world.acquire(0, 1).await;
    let (backend, stranger, key) = (world.backend(), harness.fresh_tenant(), world.key(0));
    let (cursor, worker) = (CursorUpdate::at(b"c"), WorkerId::from_raw(2));
    let spec = ShardSpecRef::new(b"a", b"z", b"meta");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"m").unwrap();
    let acquired = backend.acquire_and_restore(stranger, key, worker).await;
    assert_refused!(acquired, AcquireError::ShardNotFound(_));
    assert_refused!(backend.renew(stranger, &lease).await, RenewError::ShardNotFound(_));
    let moved = backend.checkpoint(stranger, &lease, cursor, op(1)).await;
    assert_refused!(moved, CheckpointError::ShardNotFound(_));
    let done = backend.complete(stranger, &lease, cursor, op(2)).await;
    assert_refused!(done, CompleteError::ShardNotFound(_));
    let parked = backend.park_shard(stranger, &lease, ParkReason::Other, b"", op(3)).await;
    assert_refused!(parked, ParkError::ShardNotFound(_));
    let released = backend.release(stranger, &lease, op(4)).await;
    assert_refused!(released, ReleaseError::ShardNotFound(_));
    let split = backend.split_residual(stranger, &lease, &plan, op(5)).await;
    assert_refused!(split, SplitError::ShardNotFound(_));
    let children = plan_split_replace(spec, CursorUpdate::initial(), &[b"m"]).unwrap();
    let replaced = backend.split_replace(stranger, &lease, &children, op(7)).await;
    assert_refused!(replaced, SplitError::ShardNotFound(_));
    let asked = backend.request_split(stranger, key, worker, LEASE_MS).await;
    assert_refused!(asked, SplitRequestError::ShardNotFound(_));
    let declined = backend.decline_split(stranger, &lease, 100).await;
    assert_refused!(declined, DeclineError::ShardNotFound(_));
    let unparked = backend.unpark_shard(stranger, key, op(6)).await;
    assert_refused!(unparked, UnparkError::ShardNotFound(_));
    assert!(!world.checkpoint(&lease, "c", 1).await, "the owner is not affected");
}

/// A tenant with a run and a shard of the same ids shows the lease of another tenant. It is refused
/// for its tenant, and the error reveals nothing else.
pub async fn lease_is_invalid_for_another_tenant<H: Harness>(harness: &H) {
    let (world, other) =
        (World::new(harness, &[b"a", b"z"]).await, World::new(harness, &[b"a", b"z"]).await);
    assert_eq!((world.run, world.key(0)), (RunId::from_raw(1), other.key(0)));
    let lease = world.acquire(0, 1).await;
    other.acquire(0, 1).await;
    let (backend, name, cursor) = (world.backend(), other.tenant, CursorUpdate::at(b"c"));
    assert_refused!(backend.renew(name, &lease).await, RenewError::TenantMismatch(_));
    let moved = backend.checkpoint(name, &lease, cursor, op(1)).await;
    assert_refused!(moved, CheckpointError::TenantMismatch(_));
    let done = backend.complete(name, &lease, cursor, op(2)).await;
    assert_refused!(done, CompleteError::TenantMismatch(_));
    let parked = backend.park_shard(name, &lease, ParkReason::Other, b"", op(3)).await;
    assert_refused!(parked, ParkError::TenantMismatch(_));
    let released = backend.release(name, &lease, op(4)).await;
    assert_refused!(released, ReleaseError::TenantMismatch(_));
    let spec = ShardSpecRef::new(b"a", b"z", b"meta");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"m").unwrap();
    let split = backend.split_residual(name, &lease, &plan, op(5)).await;
    assert_refused!(split, SplitError::TenantMismatch(_));
    let children = plan_split_replace(spec, CursorUpdate::initial(), &[b"m"]).unwrap();
    let replaced = backend.split_replace(name, &lease, &children, op(6)).await;
    assert_refused!(replaced, SplitError::TenantMismatch(_));
    let declined = backend.decline_split(name, &lease, 100).await;
    assert_refused!(declined, DeclineError::TenantMismatch(_));
    assert!(!world.checkpoint(&lease, "c", 1).await, "the owner is not affected");
}
