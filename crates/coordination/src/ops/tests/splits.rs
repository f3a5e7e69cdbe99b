use shardwright_contracts::limits::MAX_SPAWNED_PER_SHARD;
use shardwright_contracts::{
    SplitReplacePlan, SplitResidualPlan, SplitValidationError, plan_split_replace,
    plan_split_residual,
};

use super::*;
use crate::error::InfraError;
use crate::error::reason::{SplitInvalid, StaleFence};
use crate::split_execution::{DerivedShardKind, derive_split_shard_id};

impl World {
    fn split_replace(
        &mut self,
        lease: &Lease,
        plan: &SplitReplacePlan<'_>,
        id: u64,
    ) -> Result<(bool, Vec<ShardId>), CoordError> {
        self.call(|context, shard, events| {
            match split_replace(context, shard, lease, plan, op(id))? {
                ReplaceStep::Replayed(result) => Ok((true, result.children)),
                ReplaceStep::Ready(pending) => {
                    let result = pending.apply(context, shard, events);
                    Ok::<_, crate::error::SplitError>((false, result.children))
                }
            }
        })
    }

    fn split_residual(
        &mut self,
        lease: &Lease,
        plan: &SplitResidualPlan<'_>,
        id: u64,
    ) -> Result<(bool, ShardId), CoordError> {
        self.call(|context, shard, events| {
            match split_residual(context, shard, lease, plan, op(id))? {
                ResidualStep::Replayed(result) => Ok((true, result.residual)),
                ResidualStep::Ready(pending) => {
                    let result = pending.apply(context, shard, events)?;
                    Ok::<_, crate::error::SplitError>((false, result.residual))
                }
            }
        })
    }

    /// Splits the current shard at a key.
    fn cut_at(&mut self, lease: &Lease, key: &str, id: u64) -> Result<(bool, ShardId), CoordError> {
        let spec = self.shard.spec.clone();
        let cursor = self.shard.cursor.clone();
        let plan = plan_split_residual(spec.as_spec_ref(), cursor.as_update(), key.as_bytes());
        self.split_residual(lease, &plan.unwrap(), id)
    }
}

#[test]
fn split_replace_ends_the_parent_and_keeps_progress() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "d", 1).unwrap();
    let parent = world.shard.clone();
    let plan = plan_split_replace(parent.spec(), parent.cursor(), &[b"h", b"p"]).unwrap();
    let context = Context::new(world.now, TENANT, &world.run);
    let step = split_replace(&context, &world.shard, &lease, &plan, op(2)).unwrap();
    let ReplaceStep::Ready(pending) = step else { panic!("a replay of a new operation") };
    let children = pending.children().to_vec();
    assert_eq!(world.shard, parent, "the check of a split changes nothing");
    assert_eq!(children[0].cursor.last_key(), Some(&b"d"[..]));
    assert_eq!(children[1].spec.start(), b"h");

    let (replay, ids) = world.split_replace(&lease, &plan, 2).unwrap();
    assert!(!replay);
    assert_eq!(ids, children.iter().map(|child| child.shard).collect::<Vec<_>>());
    assert_eq!((world.head().status, world.head().lease), (ShardStatus::Split, None));
    let event = EventKind::ShardSplit { parent: lease.key().shard, children: ids.clone() };
    assert_eq!(*world.last_event(), event);
    assert_eq!(world.split_replace(&lease, &plan, 2), Ok((true, ids)));

    let head: ShardHead = children[0].head(world.head());
    assert_eq!((head.parent, head.tenant), (Some(lease.key().shard), TENANT));
    assert_eq!(head.fence, FenceEpoch::INITIAL);
    head.check_invariants().unwrap();
}

#[test]
fn split_replace_without_children_is_corrupt() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let spec = world.shard.spec.clone();
    let plan = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"h"]).unwrap();
    world.split_replace(&lease, &plan, 1).unwrap();
    world.shard.head.spawned.truncate(1);
    let error = world.split_replace(&lease, &plan, 1).unwrap_err();
    let CoordError::BackendError(InfraError::Corrupt { operation, .. }) = error else {
        panic!("{error:?}")
    };
    assert_eq!(operation, "split_replace.replay");
}

#[test]
fn derived_ids_continue_after_earlier_splits() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.cut_at(&lease, "x", 1).unwrap();
    let spec = world.shard.spec.clone();
    let plan = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"h"]).unwrap();
    let (_, children) = world.split_replace(&lease, &plan, 2).unwrap();
    let expected: Vec<_> = [1, 2]
        .map(|index| derive_split_shard_id(lease.key(), op(2), DerivedShardKind::Child, index))
        .into();
    assert_eq!(children, expected);
    assert_eq!(world.split_replace(&lease, &plan, 2), Ok((true, children)));
}

#[test]
fn split_residual_narrows_the_active_parent() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "d", 1).unwrap();
    let (replay, residual) = world.cut_at(&lease, "m", 2).unwrap();
    assert!(!replay && residual.is_derived());
    assert_eq!((world.shard.spec().start(), world.shard.spec().end()), (&b"b"[..], &b"m"[..]));
    assert_eq!(world.head().status, ShardStatus::Active);
    assert_eq!(world.head().lease.unwrap().owner, worker(1));
    assert_eq!(world.head().fence, lease.fence());
    let event = EventKind::ShardResidualCreated { parent: lease.key().shard, residual };
    assert_eq!(*world.last_event(), event);
    assert_eq!(world.checkpoint(&lease, "l", 3), executed());
    let outside = world.checkpoint(&lease, "m", 4).unwrap_err();
    assert!(matches!(outside, CoordError::CursorOutOfBounds(_)));
}

#[test]
fn split_residual_is_replayed_after_eviction() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let spec = world.shard.spec.clone();
    let plan = |key| plan_split_residual(spec.as_spec_ref(), CursorUpdate::initial(), key).unwrap();
    let (_, residual) = world.split_residual(&lease, &plan(b"m"), 1).unwrap();
    assert_eq!(world.split_residual(&lease, &plan(b"m"), 1), Ok((true, residual)));
    for id in 100..116 {
        world.checkpoint(&lease, "c", id).unwrap();
    }
    assert!(world.head().op_log.entries().all(|entry| entry.op != op(1)));
    assert_eq!(world.split_residual(&lease, &plan(b"m"), 1), Ok((true, residual)));
    let conflict = world.split_residual(&lease, &plan(b"k"), 1).unwrap_err();
    assert!(matches!(conflict, CoordError::OpIdConflict(_)));

    world.pass(LEASE_MS);
    assert_eq!(world.split_residual(&lease, &plan(b"m"), 1), Ok((true, residual)));
    world.tenant = STRANGER;
    let foreign = world.split_residual(&lease, &plan(b"m"), 1).unwrap_err();
    assert!(matches!(foreign, CoordError::TenantMismatch(_)));
}

#[test]
fn plan_is_checked_against_the_stored_shard() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let spec = world.shard.spec.clone();
    let residual = plan_split_residual(spec.as_spec_ref(), CursorUpdate::initial(), b"m").unwrap();
    let replace = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"m"]).unwrap();

    world.checkpoint(&lease, "n", 1).unwrap();
    let passed: CoordError =
        SplitInvalid::from(SplitValidationError::ParentCursorOutOfBounds).into();
    assert_eq!(world.split_residual(&lease, &residual, 2), Err(passed));
    assert!(world.split_replace(&lease, &replace, 3).is_ok(), "it only repeats some work");
}

#[test]
fn plan_for_another_range_is_refused() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let spec = world.shard.spec.clone();
    let replace = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"m"]).unwrap();
    let residual = plan_split_residual(spec.as_spec_ref(), CursorUpdate::initial(), b"m").unwrap();
    world.cut_at(&lease, "p", 1).unwrap();
    let mismatch: CoordError = SplitInvalid::from(SplitValidationError::EndMismatch).into();
    assert_eq!(world.split_replace(&lease, &replace, 2), Err(mismatch.clone()));
    assert_eq!(world.split_residual(&lease, &residual, 3), Err(mismatch));
}

#[test]
fn zombie_cannot_split() {
    let mut world = World::new();
    let zombie = world.acquire(1);
    world.pass(LEASE_MS);
    let current = world.acquire(2).fence();
    let stale: CoordError = StaleFence { presented: zombie.fence(), current }.into();
    assert_eq!(world.cut_at(&zombie, "m", 1), Err(stale.clone()));
    let spec = world.shard.spec.clone();
    let plan = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"m"]).unwrap();
    assert_eq!(world.split_replace(&zombie, &plan, 2), Err(stale));
}

#[test]
fn spawned_shards_are_limited() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let derived = |n| Spawned { shard: ShardId::from_raw(n).into_derived(), payload_hash: 0 };
    world.shard.head.spawned = (0..MAX_SPAWNED_PER_SHARD as u64 - 1).map(derived).collect();
    let spec = world.shard.spec.clone();
    let plan = plan_split_replace(spec.as_spec_ref(), CursorUpdate::initial(), &[b"m"]).unwrap();
    let refused = SplitInvalid::SpawnLimitExceeded { spawned: 1_023, additional: 2, max: 1_024 };
    assert_eq!(world.split_replace(&lease, &plan, 1), Err(refused.into()));
    world.cut_at(&lease, "m", 2).unwrap();
    let refused = SplitInvalid::SpawnLimitExceeded { spawned: 1_024, additional: 1, max: 1_024 };
    assert_eq!(world.cut_at(&lease, "k", 3), Err(refused.into()));
}
