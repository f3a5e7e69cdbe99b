//! The first failed check in the guard's order decides the refusal.

use super::*;
use crate::error::reason::{LeaseExpired, RunNotActive, ShardTerminal, StaleFence, TenantMismatch};

/// A request that fails every check of the guard, with a repair for each check.
struct FailsEveryCheck {
    world: World,
    lease: Lease,
}

impl FailsEveryCheck {
    fn new() -> Self {
        let mut world = World::new();
        let lease = world.acquire(1);
        let lease = Lease::new(
            TENANT,
            lease.key(),
            worker(9),
            FenceEpoch::from_raw(77).unwrap(),
            lease.deadline(),
        );
        world.tenant = STRANGER;
        world.run.status = RunStatus::Cancelled;
        world.shard.head.lease = None;
        world.shard.head.status = ShardStatus::Done;
        Self { world, lease }
    }

    fn refusal(&mut self) -> CoordError {
        let refusal = self.world.checkpoint(&self.lease, "c", 1).unwrap_err();
        let renewal = self.world.renew(&self.lease).unwrap_err();
        assert_eq!(renewal, refusal, "the order is the same for every operation");
        refusal
    }
}

#[test]
fn guard_checks_in_its_order() {
    let mut hopeless = FailsEveryCheck::new();
    let head = hopeless.world.shard.head.clone();
    let (run, shard) = (head.key.run, head.key.shard);
    assert_eq!(hopeless.refusal(), TenantMismatch { expected: STRANGER }.into());

    hopeless.world.tenant = TENANT;
    let not_active = RunNotActive { run, status: RunStatus::Cancelled };
    assert_eq!(hopeless.refusal(), not_active.into());

    hopeless.world.run.status = RunStatus::Active;
    let terminal = ShardTerminal { shard, status: ShardStatus::Done };
    assert_eq!(hopeless.refusal(), terminal.into());

    hopeless.world.shard.head.status = ShardStatus::Active;
    hopeless.world.acquire(1);
    hopeless.world.pass(LEASE_MS);
    let current = hopeless.world.head().fence;
    let stale = StaleFence { presented: hopeless.lease.fence(), current };
    assert_eq!(hopeless.refusal(), stale.into());

    let owner = hopeless.lease.owner();
    hopeless.lease =
        Lease::new(TENANT, hopeless.lease.key(), owner, current, hopeless.lease.deadline());
    let (deadline, now) = (hopeless.world.head().lease.unwrap().deadline, hopeless.world.now);
    assert_eq!(hopeless.refusal(), LeaseExpired { deadline, now }.into());

    hopeless.world.now = LogicalTime::from_millis(1_000);
    let not_the_owner = StaleFence { presented: current, current };
    assert_eq!(hopeless.refusal(), not_the_owner.into());
}

#[test]
fn op_log_is_checked_after_the_tenant() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "c", 1).unwrap();
    world.run.status = RunStatus::Failed;
    world.pass(LEASE_MS);
    assert_eq!(world.checkpoint(&lease, "c", 1), replayed());
    let conflict = world.checkpoint(&lease, "d", 1).unwrap_err();
    assert!(matches!(conflict, CoordError::OpIdConflict(_)));
    world.tenant = STRANGER;
    let foreign = world.checkpoint(&lease, "c", 1).unwrap_err();
    assert_eq!(foreign, TenantMismatch { expected: STRANGER }.into());
}

#[test]
fn lease_of_another_tenant_is_refused() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let foreign = Lease::new(STRANGER, lease.key(), lease.owner(), lease.fence(), lease.deadline());
    let refusal = world.checkpoint(&foreign, "c", 1).unwrap_err();
    assert_eq!(refusal, TenantMismatch { expected: TENANT }.into());
}

#[test]
fn lease_below_the_floor_is_stale() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.run.fence_floor = FenceEpoch::from_raw(lease.fence().as_raw() + 1).unwrap();
    let stale = StaleFence { presented: lease.fence(), current: lease.fence() };
    assert_eq!(world.checkpoint(&lease, "c", 1), Err(stale.into()));
}

#[test]
fn stored_deadline_decides_expiry() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.pass(LEASE_MS - 1);
    world.renew(&lease).unwrap();
    world.pass(LEASE_MS - 1);
    assert_eq!(world.checkpoint(&lease, "c", 1), executed());
    world.pass(1);
    let expired = world.checkpoint(&lease, "d", 2).unwrap_err();
    assert!(matches!(expired, CoordError::LeaseExpired(_)));
}

#[test]
fn paused_run_refuses_acquires_and_keeps_holders() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.run.paused = true;
    let renewed = world.renew(&lease).unwrap();
    assert_eq!(world.checkpoint(&renewed, "c", 1), executed());
    assert_eq!(world.release(&renewed, 2), executed());
    let paused = world.acquire_as(2, OwnerLiveness::Untracked).unwrap_err();
    assert!(matches!(paused, CoordError::RunPaused(_)));
    world.run.paused = false;
    world.acquire(2);
}

#[test]
fn inactive_run_refuses_everything() {
    for status in RunStatus::ALL.iter().filter(|status| **status != RunStatus::Active) {
        let mut world = World::new();
        world.run.status = *status;
        let refusal = world.acquire_as(1, OwnerLiveness::Untracked).unwrap_err();
        assert_eq!(refusal, RunNotActive { run: world.run.run, status: *status }.into());
    }
}

#[test]
fn other_tenant_gets_not_found() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.park(&lease, 1).unwrap();
    world.tenant = STRANGER;
    let nothing: CoordError = TenantMismatch { expected: STRANGER }.into();
    assert_eq!(world.acquire_as(2, OwnerLiveness::Untracked), Err(nothing.clone()));
    assert_eq!(world.unpark(1), Err(nothing.clone()));
    assert_eq!(world.park(&lease, 1), Err(nothing));
}

#[test]
fn guard_errors_convert_to_the_operation_error() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.pass(LEASE_MS);
    let context = Context::new(world.now, TENANT, &world.run);
    let cursor = CursorUpdate::at(b"c");
    let events = &mut EventCollector::disabled();
    let request = Checkpoint { lease, op: op(1), cursor };
    let error = checkpoint(&context, &mut world.shard, &request, events).unwrap_err();
    assert!(matches!(&error, CheckpointError::LeaseExpired(expired) if expired.now == world.now));
}
