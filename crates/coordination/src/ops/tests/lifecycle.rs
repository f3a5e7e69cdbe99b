use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_PARK_DETAIL_SIZE, MAX_TOKEN_SIZE};
use shardwright_contracts::{CursorRegression, FenceEpochError};

use super::*;
use crate::error::reason::{
    AlreadyLeased, CheckpointMissingKey, CursorKeyTooLarge, CursorOutOfBounds, CursorTokenTooLarge,
    LeaseExpired, NotParked, ParkDetailTooLarge, RetriesExhausted, ShardTerminal, StaleFence,
};
use crate::events::RedactedKey;

#[test]
fn acquire_grants_a_new_fence_for_the_lease_duration() {
    let mut world = World::new();
    let lease = world.acquire(1);
    assert_eq!(lease.fence().as_raw(), 2);
    assert_eq!(lease.deadline(), world.now.saturating_add(LEASE_MS));
    assert_eq!((lease.owner(), lease.key(), lease.tenant()), (worker(1), world.head().key, TENANT));
    assert_eq!((world.head().acquire_count, world.head().acquires_without_progress), (1, 1));
    let event = EventKind::ShardAcquired {
        shard: lease.key().shard,
        worker: worker(1),
        fence_epoch: lease.fence(),
    };
    assert_eq!(*world.last_event(), event);
}

#[test]
fn held_shard_is_available_at_the_deadline() {
    let mut world = World::new();
    let first = world.acquire(1);
    world.pass(LEASE_MS - 1);
    let refused = AlreadyLeased { current_owner: worker(1), deadline: first.deadline() };
    for id in [1, 2] {
        let refusal = world.acquire_as(id, OwnerLiveness::Live).unwrap_err();
        assert_eq!(refusal, refused.into());
    }
    world.pass(1);
    assert_eq!(world.acquire(2).fence().as_raw(), 3);
    assert_eq!(world.head().lease.unwrap().owner, worker(2));
}

#[test]
fn skew_delays_a_takeover_unless_the_session_ended() {
    let mut world = World::new();
    world.acquire(1);
    world.pass(LEASE_MS + 9);
    let with_skew = |world: &mut World, liveness| {
        world.liveness = liveness;
        world.call(|context, shard, events| acquire(context, shard, worker(2), 10, events))
    };
    assert!(with_skew(&mut world, OwnerLiveness::Live).is_err());
    assert!(with_skew(&mut world, OwnerLiveness::Untracked).is_err());
    assert!(with_skew(&mut world, OwnerLiveness::Gone).is_ok());
    world.pass(LEASE_MS + 10);
    assert!(with_skew(&mut world, OwnerLiveness::Live).is_ok());
}

#[test]
fn ended_session_expires_the_lease() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.pass(7);
    world.liveness = OwnerLiveness::Gone;
    let now = world.now;
    let over: CoordError = LeaseExpired { deadline: now, now }.into();
    assert_eq!(world.renew(&lease), Err(over.clone()));
    assert_eq!(world.checkpoint(&lease, "c", 1), Err(over));
    world.liveness = OwnerLiveness::Live;
    assert!(world.checkpoint(&lease, "c", 1).is_ok());
    world.liveness = OwnerLiveness::Gone;
    assert!(world.checkpoint(&lease, "c", 1).unwrap().is_replay());
}

#[test]
fn fences_start_above_the_floor_and_never_wrap() {
    let mut world = World::new();
    world.run.fence_floor = FenceEpoch::from_raw(1 << 40).unwrap();
    assert_eq!(world.acquire(1).fence().as_raw(), 1 << 40);
    world.pass(LEASE_MS);
    assert_eq!(world.acquire(1).fence().as_raw(), (1 << 40) + 1);
    world.shard.head.fence = FenceEpoch::MAX;
    world.pass(LEASE_MS);
    let refusal = world.acquire_as(1, OwnerLiveness::Untracked).unwrap_err();
    assert_eq!(refusal, FenceEpochError::Exhausted.into());
}

#[test]
fn renew_extends_and_never_shortens_a_lease() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.pass(40);
    let renewed = world.renew(&lease).unwrap();
    assert_eq!(renewed.deadline(), lease.deadline().saturating_add(40));
    assert_eq!(renewed.fence(), lease.fence());
    assert_eq!(world.head().lease.unwrap().deadline, renewed.deadline());
    let event =
        EventKind::ShardLeaseRenewed { shard: lease.key().shard, new_deadline: renewed.deadline() };
    assert_eq!(*world.last_event(), event);

    world.now = LogicalTime::from_millis(1_010);
    assert_eq!(world.renew(&lease).unwrap().deadline(), renewed.deadline());
}

#[test]
fn checkpoint_only_moves_forward() {
    let mut world = World::new();
    let lease = world.acquire(1);
    assert_eq!(world.checkpoint(&lease, "d", 1), executed());
    let key = RedactedKey(Some(b"d"[..].into()));
    let event = EventKind::ShardCheckpointed { shard: lease.key().shard, last_key: key };
    assert_eq!(*world.last_event(), event);
    assert_eq!(world.checkpoint(&lease, "d", 2), executed(), "the same key is accepted");
    let refusal = world.checkpoint(&lease, "c", 3).unwrap_err();
    assert_eq!(refusal, CursorRegression::Backwards.into());
    assert_eq!(world.shard.cursor().last_key(), Some(&b"d"[..]));
}

#[test]
fn cursors_are_checked_for_form_size_and_bounds() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let (long_key, long_token) = (vec![b'c'; MAX_KEY_SIZE + 1], vec![0; MAX_TOKEN_SIZE + 1]);
    let cases: [(CursorUpdate<'_>, CoordError); 7] = [
        (CursorUpdate::initial(), CheckpointMissingKey.into()),
        (CursorUpdate::at(b""), CheckpointMissingKey.into()),
        (CursorUpdate::new(None, Some(b"t")), CheckpointMissingKey.into()),
        (CursorUpdate::at(&long_key), CursorKeyTooLarge { size: 4_097, max: 4_096 }.into()),
        (
            CursorUpdate::new(Some(b"c"), Some(&long_token)),
            CursorTokenTooLarge { size: 16_385, max: 16_384 }.into(),
        ),
        (CursorUpdate::at(b"a"), CursorOutOfBounds.into()),
        (CursorUpdate::at(b"y"), CursorOutOfBounds.into()),
    ];
    for (cursor, expected) in cases {
        let refusal = world.call(|context, shard, events| {
            checkpoint(context, shard, &Checkpoint { lease, op: op(9), cursor }, events)
        });
        assert_eq!(refusal, Err(expected.clone()));
        if !cursor.is_initial() || cursor.token().is_some() {
            assert_eq!(world.complete(&lease, cursor, 9), Err(expected));
        }
    }
}

#[test]
fn empty_shard_completes_with_the_initial_cursor() {
    let mut world = World::new();
    let lease = world.acquire(1);
    assert_eq!(world.complete(&lease, CursorUpdate::initial(), 1), executed());
    assert_eq!(world.head().status, ShardStatus::Done);
    assert_eq!(world.head().lease, None);
    assert_eq!(*world.last_event(), EventKind::ShardCompleted { shard: lease.key().shard });
}

#[test]
fn complete_never_moves_the_cursor_back() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "m", 1).unwrap();
    let reset = world.complete(&lease, CursorUpdate::initial(), 2).unwrap_err();
    assert_eq!(reset, CursorRegression::Reset.into());
    assert_eq!(world.complete(&lease, CursorUpdate::at(b"x"), 2), executed());
    assert_eq!(world.shard.cursor().last_key(), Some(&b"x"[..]));
}

#[test]
fn done_shard_stays_done() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.complete(&lease, CursorUpdate::initial(), 1).unwrap();
    let terminal: CoordError =
        ShardTerminal { shard: lease.key().shard, status: ShardStatus::Done }.into();
    assert_eq!(world.acquire_as(2, OwnerLiveness::Gone), Err(terminal.clone()));
    assert_eq!(world.renew(&lease), Err(terminal.clone()));
    assert_eq!(world.checkpoint(&lease, "c", 2), Err(terminal.clone()));
    assert_eq!(world.park(&lease, 3), Err(terminal.clone()));
    assert_eq!(world.release(&lease, 4), Err(terminal));
    let not_parked = NotParked { shard: lease.key().shard, status: ShardStatus::Done };
    assert_eq!(world.unpark(5), Err(not_parked.into()));
}

#[test]
fn unpark_clears_the_reason_and_raises_the_fence() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "m", 1).unwrap();
    assert_eq!(world.park(&lease, 2), executed());
    let park = world.head().park.clone().unwrap();
    assert_eq!((park.reason, &*park.detail), (ParkReason::Poisoned, &b"bad row"[..]));
    assert!(!format!("{park:?}").contains("bad"));
    assert_eq!(world.unpark(3), executed());
    assert_eq!((world.head().status, &world.head().park), (ShardStatus::Active, &None));
    assert_eq!(world.head().fence.as_raw(), 3);
    assert_eq!(world.shard.cursor().last_key(), Some(&b"m"[..]));
    let stale = StaleFence { presented: lease.fence(), current: world.head().fence };
    assert_eq!(world.checkpoint(&lease, "n", 4), Err(stale.into()));
}

#[test]
fn park_detail_is_bounded() {
    let mut world = World::new();
    let lease = world.acquire(1);
    let detail = vec![b'x'; MAX_PARK_DETAIL_SIZE + 1];
    let mut park_with = |detail: &[u8]| {
        world.call(|context, shard, events| {
            let (reason, op) = (ParkReason::Other, op(1));
            park(context, shard, &ParkShard { lease, reason, op, detail }, events)
        })
    };
    let too_large = ParkDetailTooLarge { size: 1_025, max: 1_024 };
    assert_eq!(park_with(&detail), Err(too_large.into()));
    assert_eq!(park_with(&detail[1..]), executed());
}

#[test]
fn release_frees_the_shard_and_is_no_attempt() {
    let mut world = World::new();
    let lease = world.acquire(1);
    assert_eq!(world.release(&lease, 1), executed());
    assert_eq!((world.head().lease, world.head().acquires_without_progress), (None, 0));
    assert_eq!(*world.last_event(), EventKind::ShardReleased { shard: lease.key().shard });
    let stale = StaleFence { presented: lease.fence(), current: lease.fence() };
    assert_eq!(world.renew(&lease), Err(stale.into()), "the shard has no holder");
    assert_eq!(world.acquire(2).fence().as_raw(), 3);
}

#[test]
fn acquire_without_progress_parks_the_shard() {
    let mut world = World::new();
    world.run.config.max_shard_retries = std::num::NonZeroU32::new(2);
    let first = world.acquire(1);
    world.checkpoint(&first, "c", 1).unwrap();
    for _ in 0..2 {
        world.pass(LEASE_MS);
        let lease = world.acquire(1);
        world.checkpoint(&lease, "c", lease.fence().as_raw()).unwrap();
    }
    assert_eq!(world.head().acquires_without_progress, 2, "the same key is no progress");
    world.pass(LEASE_MS);
    let exhausted = RetriesExhausted { shard: first.key().shard, attempts: 2 };
    let outcome = world.acquire_as(1, OwnerLiveness::Untracked).unwrap();
    assert_eq!(outcome, Acquired::Parked(exhausted));
    let park = world.head().park.clone().unwrap();
    assert_eq!(
        (world.head().status, park.reason),
        (ShardStatus::Parked, ParkReason::TooManyErrors)
    );
    world.unpark(100).unwrap();
    world.acquire(1);
}

#[test]
fn replay_returns_the_answer_and_changes_nothing() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "c", 1).unwrap();
    let (after, events) = (world.shard.clone(), world.events.len());
    assert_eq!(world.checkpoint(&lease, "c", 1), replayed());
    world.pass(10 * LEASE_MS);
    assert_eq!(world.checkpoint(&lease, "c", 1), replayed(), "even after the lease has expired");
    assert_eq!((&world.shard, world.events.len()), (&after, events));
    world.acquire(2);
    assert_eq!(world.checkpoint(&lease, "c", 1), replayed(), "and under another owner");

    let lease = world.acquire_after_expiry(1);
    world.park(&lease, 2).unwrap();
    assert_eq!(world.park(&lease, 2), replayed());
    world.unpark(3).unwrap();
    assert_eq!(world.unpark(3), replayed());
    let lease = world.acquire(1);
    world.release(&lease, 4).unwrap();
    assert_eq!(world.release(&lease, 4), replayed());
    let lease = world.acquire(1);
    world.complete(&lease, CursorUpdate::at(b"x"), 5).unwrap();
    assert_eq!(world.complete(&lease, CursorUpdate::at(b"x"), 5), replayed());
}

#[test]
fn reused_op_id_is_a_conflict() {
    let mut world = World::new();
    let lease = world.acquire(1);
    world.checkpoint(&lease, "c", 1).unwrap();
    let conflicts = [
        world.checkpoint(&lease, "d", 1),
        world.complete(&lease, CursorUpdate::at(b"c"), 1),
        world.park(&lease, 1),
        world.release(&lease, 1),
        world.unpark(1),
    ];
    for conflict in conflicts {
        assert!(matches!(conflict, Err(CoordError::OpIdConflict(_))), "{conflict:?}");
    }
}

#[test]
fn retry_after_eviction_is_checked_as_new() {
    let mut world = World::new();
    let lease = world.acquire(1);
    for id in 0..17 {
        let key = format!("c{id:02}");
        assert_eq!(world.checkpoint(&lease, &key, id), executed());
    }
    let refusal = world.checkpoint(&lease, "c00", 0).unwrap_err();
    assert_eq!(refusal, CursorRegression::Backwards.into());
    assert_eq!(world.checkpoint(&lease, "c01", 1), replayed());
}

impl World {
    fn acquire_after_expiry(&mut self, id: u64) -> Lease {
        self.pass(LEASE_MS);
        self.acquire(id)
    }
}
