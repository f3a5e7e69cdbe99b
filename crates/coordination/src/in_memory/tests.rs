//! What the coordinator adds to the operations: lookup, indexes, limits and room.

use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, LogicalTime, OpId, RunId, ShardId,
    ShardSpecRef, SlabFull, WorkerId, plan_split_replace, plan_split_residual,
};

use super::*;
use crate::error::reason::{NoneAvailable, RunLimitExceeded, SplitInvalid, Throttled};
use crate::error::{CheckpointError, ClaimError, CreateRunError, RegisterShardsError, SplitError};
use crate::facade::ShardClaiming;
use crate::lease::Lease;
use crate::op_log::IdempotentOutcome;
use crate::record::{RunConfig, ShardHead};
use crate::restore::AcquireScratch;
use crate::shard_limits::{ShardLimitScope, ShardLimitViolation};
use crate::split_execution::{DerivedShardKind, derive_split_shard_id};
use crate::status::ParkReason;
use crate::summary::{ShardFilter, ShardSummary};
use crate::traits::{CoordinationBackend, RunManagement};

const TENANT: TenantId = TenantId::from_bytes([1; 32]);
const STRANGER: TenantId = TenantId::from_bytes([2; 32]);
const RUN: RunId = RunId::from_raw(7);
const LEASE_MS: u64 = 100;

fn at(millis: u64) -> LogicalTime {
    LogicalTime::from_millis(millis)
}

fn op(raw: u64) -> OpId {
    OpId::from_raw(raw)
}

fn worker(raw: u64) -> WorkerId {
    WorkerId::from_raw(raw)
}

fn key(shard: u64) -> ShardKey {
    ShardKey::new(RUN, ShardId::from_raw(shard))
}

fn small() -> CoordinatorRuntimeConfig {
    CoordinatorRuntimeConfig {
        max_shards_per_tenant: 10,
        max_total_shards: 12,
        slab_capacity: 1_000,
        ..CoordinatorRuntimeConfig::default()
    }
}

/// Shards `[a, b)`, `[b, c)` and so on.
fn manifest(bounds: &[[u8; 1]]) -> Vec<InitialShardInput<'_>> {
    bounds
        .array_windows()
        .zip(0..)
        .map(|([start, end], id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        })
        .collect()
}

fn letters(shards: u8) -> Vec<[u8; 1]> {
    (b'a'..=b'a' + shards).map(|letter| [letter]).collect()
}

fn config() -> RunConfig {
    RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap()
}

fn coordinator(config: CoordinatorRuntimeConfig, shards: u8) -> InMemoryCoordinator {
    let mut coordinator = InMemoryCoordinator::try_new(config).unwrap();
    let bounds = letters(shards);
    coordinator
        .create_run_with_shards(at(1), TENANT, RUN, self::config(), &manifest(&bounds), op(1))
        .unwrap();
    coordinator
}

fn acquire(coordinator: &mut InMemoryCoordinator, now: u64, shard: u64) -> Lease {
    let mut scratch = AcquireScratch::new();
    coordinator
        .acquire_and_restore_into(at(now), TENANT, key(shard), worker(1), &mut scratch)
        .unwrap()
        .lease
}

fn claim(coordinator: &mut InMemoryCoordinator, now: u64, id: u64) -> Result<ShardId, ClaimError> {
    let mut scratch = AcquireScratch::new();
    let claimed =
        coordinator.claim_next_available(at(now), TENANT, RUN, worker(id), &mut scratch)?;
    Ok(claimed.lease.key().shard)
}

#[test]
fn acquire_restores_the_stored_shard() {
    let mut coordinator = coordinator(small(), 2);
    let lease = acquire(&mut coordinator, 1, 0);
    let cursor = CursorUpdate::new(Some(b"aa"), Some(b"token"));
    coordinator.checkpoint(at(2), TENANT, &lease, cursor, op(2)).unwrap();
    let mut scratch = AcquireScratch::new();
    let restored = coordinator
        .acquire_and_restore_into(at(101), TENANT, key(0), worker(2), &mut scratch)
        .unwrap();
    assert_eq!(restored.snapshot.cursor, cursor);
    assert_eq!(restored.snapshot.spec, ShardSpecRef::new(b"a", b"b", b""));
    assert_eq!(restored.lease.fence().as_raw(), 3);
    // Another shard in the same buffer leaves no bytes of this one.
    let other = coordinator
        .acquire_and_restore_into(at(101), TENANT, key(1), worker(2), &mut scratch)
        .unwrap();
    assert_eq!(other.snapshot.cursor, CursorUpdate::initial());
    assert_eq!(other.snapshot.spec, ShardSpecRef::new(b"b", b"c", b""));
}

#[test]
fn claim_grants_each_shard_once_then_names_a_deadline() {
    let mut coordinator = coordinator(small(), 3);
    let mut claimed: Vec<u64> =
        (0..3).map(|id| claim(&mut coordinator, 1 + id, id).unwrap().as_raw()).collect();
    claimed.sort_unstable();
    assert_eq!(claimed, [0, 1, 2]);
    let none = NoneAvailable { earliest_deadline: Some(at(1 + LEASE_MS)) };
    assert_eq!(claim(&mut coordinator, 50, 9), Err(none.into()));
    assert!(claim(&mut coordinator, 1 + LEASE_MS, 9).is_ok(), "the first lease has ended");
}

#[test]
fn different_workers_start_at_different_shards() {
    let mut coordinator = coordinator(small(), 4);
    let claimed: Vec<u64> =
        [2, 2, 5].map(|id| claim(&mut coordinator, 1, id).unwrap().as_raw()).into();
    assert_eq!(claimed, [2, 3, 1]);
}

#[test]
fn refused_claim_counts_as_waiting_for_a_while() {
    let mut coordinator = coordinator(small(), 1);
    let lease = acquire(&mut coordinator, 1, 0);
    let waiting = |coordinator: &mut InMemoryCoordinator, now| {
        coordinator.renew(at(now), TENANT, &lease).unwrap().capacity.waiting_workers
    };
    assert_eq!(waiting(&mut coordinator, 2), 0);
    assert!(claim(&mut coordinator, 3, 5).is_err());
    assert!(claim(&mut coordinator, 4, 5).is_err(), "the same one");
    assert!(claim(&mut coordinator, 4, 6).is_err());
    assert_eq!(waiting(&mut coordinator, 90), 2);
    assert_eq!(waiting(&mut coordinator, 103), 2);
    assert_eq!(waiting(&mut coordinator, 104), 0);
}

#[test]
fn claims_are_throttled_per_worker() {
    let config = CoordinatorRuntimeConfig { claim_cooldown_interval_ms: 10, ..small() };
    let mut coordinator = coordinator(config, 4);
    claim(&mut coordinator, 1, 1).unwrap();
    let throttled = Throttled { retry_after: at(11) };
    assert_eq!(claim(&mut coordinator, 10, 1), Err(throttled.into()));
    assert!(claim(&mut coordinator, 10, 2).is_ok());
    assert!(claim(&mut coordinator, 11, 1).is_ok());
}

#[test]
fn paused_or_ended_run_grants_no_claim() {
    let mut coordinator = coordinator(small(), 2);
    coordinator.pause_run(at(2), TENANT, RUN, op(2)).unwrap();
    assert!(matches!(claim(&mut coordinator, 2, 1), Err(ClaimError::RunPaused(_))));
    coordinator.resume_run(at(3), TENANT, RUN, op(3)).unwrap();
    claim(&mut coordinator, 3, 1).unwrap();
    coordinator.cancel_run(at(4), TENANT, RUN, op(4)).unwrap();
    assert!(matches!(claim(&mut coordinator, 4, 1), Err(ClaimError::RunNotActive(_))));
}

#[test]
fn other_tenants_state_is_invisible() {
    let mut coordinator = coordinator(small(), 2);
    let lease = acquire(&mut coordinator, 1, 0);
    let cursor = CursorUpdate::at(b"aa");
    let foreign = coordinator.checkpoint(at(2), STRANGER, &lease, cursor, op(2));
    assert!(matches!(foreign, Err(CheckpointError::ShardNotFound(_))));
    assert!(coordinator.get_run(STRANGER, RUN).is_err());
    assert!(coordinator.cancel_run(at(2), STRANGER, RUN, op(3)).is_err());
    let mut listed = Vec::new();
    let all = ShardFilter::all();
    assert!(coordinator.list_shards_into(at(2), STRANGER, RUN, all, &mut listed).is_err());
}

#[test]
fn run_from_registration_to_completion() {
    let mut coordinator = coordinator(small(), 2);
    coordinator.collect_events();
    let unfinished = coordinator.complete_run(at(2), TENANT, RUN, op(9));
    assert!(unfinished.is_err());
    for shard in 0..2 {
        let lease = acquire(&mut coordinator, 2, shard);
        coordinator
            .complete(at(3), TENANT, &lease, CursorUpdate::initial(), op(10 + shard))
            .unwrap();
    }
    let progress = coordinator.get_run_progress(at(4), TENANT, RUN).unwrap();
    assert_eq!((progress.done, progress.total()), (2, 2));
    assert_eq!(progress.watermark.as_deref(), Some(&b"c"[..]));
    let done = coordinator.complete_run(at(4), TENANT, RUN, op(9)).unwrap();
    assert_eq!(done, IdempotentOutcome::Executed(()));
    assert_eq!(coordinator.take_events().len(), 5);
    assert!(coordinator.take_events().is_empty());
}

#[test]
fn splits_add_shards_that_can_be_claimed() {
    let mut coordinator = coordinator(small(), 1);
    let lease = acquire(&mut coordinator, 1, 0);
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let residual = plan_split_residual(spec, CursorUpdate::initial(), b"am").unwrap();
    let outcome = coordinator.split_residual(at(2), TENANT, &lease, &residual, op(2)).unwrap();
    let IdempotentOutcome::Executed(result) = outcome else {
        panic!("a replay of a new operation")
    };
    let again = coordinator.split_residual(at(2), TENANT, &lease, &residual, op(2)).unwrap();
    assert_eq!(again, IdempotentOutcome::Replayed(result));
    assert_eq!(claim(&mut coordinator, 2, 2), Ok(result.residual));

    let narrowed = ShardSpecRef::new(b"a", b"am", b"");
    let replace = plan_split_replace(narrowed, CursorUpdate::initial(), &[b"ac", b"ae"]).unwrap();
    let outcome = coordinator.split_replace(at(3), TENANT, &lease, &replace, op(3)).unwrap();
    assert_eq!(outcome.into_inner().children.len(), 3);
    assert_eq!(coordinator.shard_count(), 5);
    let mut tiles: Vec<ShardSummary> = Vec::new();
    let active = ShardFilter::active();
    coordinator.list_shards_into(at(3), TENANT, RUN, active, &mut tiles).unwrap();
    let bounds: Vec<_> = tiles.iter().map(|tile| (&*tile.start, &*tile.end)).collect();
    let expected: [(&[u8], &[u8]); 4] =
        [(b"a", b"ac"), (b"ac", b"ae"), (b"ae", b"am"), (b"am", b"b")];
    assert_eq!(bounds, expected);
    let available = ShardFilter::available();
    coordinator.list_shards_into(at(3), TENANT, RUN, available, &mut tiles).unwrap();
    assert_eq!(tiles.len(), 3, "the residual is held");
    let roots = ShardFilter { root_only: true, ..ShardFilter::all() };
    coordinator.list_shards_into(at(3), TENANT, RUN, roots, &mut tiles).unwrap();
    assert_eq!(tiles.len(), 1);
}

#[test]
fn shard_limits_hold_for_registration_and_for_splits() {
    let mut coordinator = coordinator(small(), 9);
    let lease = acquire(&mut coordinator, 1, 0);
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[b"am"]).unwrap();
    let refused = coordinator.split_replace(at(2), TENANT, &lease, &plan, op(2)).unwrap_err();
    let (scope, current) = (ShardLimitScope::Tenant, 9);
    let violation = ShardLimitViolation { scope, current, additional: 2, max: 10 };
    assert_eq!(refused, SplitError::SplitInvalid(SplitInvalid::from(violation)));
    let residual = plan_split_residual(spec, CursorUpdate::initial(), b"am").unwrap();
    coordinator.split_residual(at(2), TENANT, &lease, &residual, op(3)).unwrap();
    assert_eq!(coordinator.shard_count(), 10);

    let run = RunId::from_raw(8);
    let bounds = letters(3);
    coordinator.create_run(at(3), STRANGER, run, config()).unwrap();
    let refused =
        coordinator.register_shards(at(3), STRANGER, run, &manifest(&bounds), op(4)).unwrap_err();
    let (scope, current) = (ShardLimitScope::Total, 10);
    let violation = ShardLimitViolation { scope, current, additional: 3, max: 12 };
    assert_eq!(refused, violation.into());
    coordinator.register_shards(at(3), STRANGER, run, &manifest(&bounds[1..]), op(5)).unwrap();
}

#[test]
fn run_limit_holds() {
    let config = CoordinatorRuntimeConfig { max_total_runs: 2, ..small() };
    let mut coordinator = coordinator(config, 1);
    let (second, third) = (RunId::from_raw(8), RunId::from_raw(9));
    coordinator.create_run(at(2), STRANGER, second, self::config()).unwrap();
    coordinator.collect_events();
    let full = CreateRunError::from(RunLimitExceeded { max: 2 });
    for tenant in [TENANT, STRANGER] {
        let refused = coordinator.create_run(at(3), tenant, third, self::config());
        assert_eq!(refused, Err(full.clone()));
        let bounds = letters(1);
        let shards = manifest(&bounds);
        let refused = coordinator.create_run_with_shards(
            at(3),
            tenant,
            third,
            self::config(),
            &shards,
            op(1),
        );
        assert_eq!(refused, Err(full.clone().into()));
        assert!(coordinator.get_run(tenant, third).is_err(), "no run is left behind");
    }
    assert!(coordinator.take_events().is_empty());
    // Existing runs are found as before and can still be started.
    let again = coordinator.create_run(at(4), STRANGER, second, self::config());
    assert!(matches!(again, Err(CreateRunError::RunAlreadyExists(_))), "{again:?}");
    let bounds = letters(1);
    let shards = manifest(&bounds);
    let taken_up =
        coordinator.create_run_with_shards(at(4), STRANGER, second, self::config(), &shards, op(2));
    assert!(taken_up.is_ok(), "{taken_up:?}");
}

#[test]
fn full_slab_refuses_and_changes_nothing() {
    let config = CoordinatorRuntimeConfig { slab_capacity: 20, ..small() };
    let mut coordinator = coordinator(config, 2);
    let lease = acquire(&mut coordinator, 1, 0);
    let used = coordinator.bytes_used();
    let long = CursorUpdate::new(Some(b"aa"), Some(&[0; 30]));
    let refused = coordinator.checkpoint(at(2), TENANT, &lease, long, op(2)).unwrap_err();
    assert!(matches!(refused, CheckpointError::ResourceExhausted(SlabFull::Bytes { .. })));
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let wide = [vec![b'a'; 9], vec![b'b'; 1]].concat();
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[&wide]).unwrap();
    let refused = coordinator.split_replace(at(2), TENANT, &lease, &plan, op(3)).unwrap_err();
    assert!(matches!(refused, SplitError::ResourceExhausted(_)));
    let plan = plan_split_residual(spec, CursorUpdate::initial(), &wide).unwrap();
    let refused = coordinator.split_residual(at(2), TENANT, &lease, &plan, op(3)).unwrap_err();
    assert!(matches!(refused, SplitError::ResourceExhausted(_)));
    assert_eq!((coordinator.bytes_used(), coordinator.shard_count()), (used, 2));
    let short = CursorUpdate::at(b"aa");
    coordinator.checkpoint(at(2), TENANT, &lease, short, op(2)).unwrap();

    let bounds = letters(9);
    let mut tight = InMemoryCoordinator::try_new(config).unwrap();
    tight.create_run(at(1), TENANT, RUN, self::config()).unwrap();
    let mut shards = manifest(&bounds);
    shards[8].spec = ShardSpecRef::new(b"i", b"j", b"metadata");
    let refused = tight.register_shards(at(1), TENANT, RUN, &shards, op(1)).unwrap_err();
    assert!(matches!(refused, RegisterShardsError::ResourceExhausted(_)));
    assert_eq!((tight.bytes_used(), tight.shard_count()), (0, 0));
    tight.register_shards(at(1), TENANT, RUN, &manifest(&bounds), op(1)).unwrap();
}

#[test]
fn full_slab_accepts_a_cursor_that_fits_in_place() {
    let config = CoordinatorRuntimeConfig { slab_capacity: 2 + 4, ..small() };
    let mut coordinator = coordinator(config, 1);
    let lease = acquire(&mut coordinator, 1, 0);
    let mut ops = (2..).map(op);
    let mut checkpoint = |coordinator: &mut InMemoryCoordinator, key: &[u8], token: &[u8]| {
        let cursor = CursorUpdate::new(Some(key), Some(token));
        coordinator.checkpoint(at(2), TENANT, &lease, cursor, ops.next().unwrap()).map(|_| ())
    };
    checkpoint(&mut coordinator, b"aa", b"12").unwrap();
    assert_eq!(coordinator.bytes_used(), 6);
    checkpoint(&mut coordinator, b"ab", b"34").unwrap();
    checkpoint(&mut coordinator, b"ac", b"").unwrap();
    assert_eq!(coordinator.bytes_used(), 4);
    checkpoint(&mut coordinator, b"ad", b"56").unwrap();
    let refused = checkpoint(&mut coordinator, b"ae", b"789").unwrap_err();
    let full = SlabFull::Bytes { requested: 5, free: 0, capacity: 6 };
    assert_eq!(refused, CheckpointError::ResourceExhausted(full));

    let mut scratch = AcquireScratch::new();
    let restored = coordinator
        .acquire_and_restore_into(at(101), TENANT, key(0), worker(2), &mut scratch)
        .unwrap();
    assert_eq!(restored.snapshot.cursor, CursorUpdate::new(Some(b"ad"), Some(b"56")));
    assert_eq!(restored.snapshot.spec, ShardSpecRef::new(b"a", b"b", b""));
}

#[test]
fn full_slab_accepts_a_range_that_fits_in_place() {
    let spec = ShardSpecRef::new(b"aa", b"ba", b"");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"am").unwrap();
    let input = InitialShardInput { shard: ShardId::SINGLE, spec, cursor: CursorUpdate::initial() };
    let remembered = 16;
    for (room, has_room) in [(4 + 4 + remembered, true), (4 + 3 + remembered, false)] {
        let config = CoordinatorRuntimeConfig { slab_capacity: room, ..small() };
        let mut coordinator = InMemoryCoordinator::try_new(config).unwrap();
        coordinator
            .create_run_with_shards(at(1), TENANT, RUN, self::config(), &[input], op(1))
            .unwrap();
        let lease = acquire(&mut coordinator, 1, 0);
        let split = coordinator.split_residual(at(2), TENANT, &lease, &plan, op(2));
        assert_eq!(split.is_ok(), has_room);
        let used = if has_room { 8 + remembered } else { 4 };
        assert_eq!(coordinator.bytes_used(), used as usize);
    }
}

#[test]
fn park_details_and_spawned_shards_count_as_bytes() {
    let config = CoordinatorRuntimeConfig { slab_capacity: 2 + 8, ..small() };
    let mut coordinator = coordinator(config, 1);
    let lease = acquire(&mut coordinator, 1, 0);
    let before = coordinator.get_run_progress(at(2), TENANT, RUN).unwrap();
    let park = |coordinator: &mut InMemoryCoordinator, detail: &[u8], id| {
        coordinator.park_shard(at(2), TENANT, &lease, ParkReason::Other, detail, op(id))
    };
    let full = SlabFull::Bytes { requested: 9, free: 8, capacity: 10 };
    assert_eq!(park(&mut coordinator, b"too long!", 2), Err(full.into()));
    assert_eq!(coordinator.get_run_progress(at(2), TENANT, RUN).unwrap(), before);
    assert_eq!(coordinator.bytes_used(), 2);

    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"am").unwrap();
    let split = coordinator.split_residual(at(2), TENANT, &lease, &plan, op(3));
    let full = SlabFull::Bytes { requested: 16, free: 8, capacity: 10 };
    assert_eq!(split, Err(full.into()), "the parent has no room for the id");
    assert_eq!((coordinator.bytes_used(), coordinator.shard_count()), (2, 1));

    park(&mut coordinator, b"8 bytes!", 4).unwrap();
    assert_eq!(coordinator.bytes_used(), 10);
    assert!(park(&mut coordinator, b"8 bytes!", 4).unwrap().is_replay(), "even without free bytes");
    coordinator.unpark_shard(at(3), TENANT, key(0), op(5)).unwrap();
    assert_eq!(coordinator.bytes_used(), 2);
}

#[test]
fn refused_split_frees_all_reserved_bytes() {
    let (spec, middle) = (ShardSpecRef::new(b"a", b"b", b""), [b'a'; 10]);
    let plan = plan_split_replace(spec, CursorUpdate::initial(), &[&middle]).unwrap();
    // Room for the ids of both children and for the range of the first.
    let config = CoordinatorRuntimeConfig { slab_capacity: 2 + 2 * 16 + 15, ..small() };
    let mut coordinator = coordinator(config, 1);
    let lease = acquire(&mut coordinator, 1, 0);
    for id in 2..5 {
        let refused = coordinator.split_replace(at(2), TENANT, &lease, &plan, op(id));
        let full = SlabFull::Bytes { requested: 11, free: 4, capacity: 49 };
        assert_eq!(refused, Err(full.into()));
        assert_eq!((coordinator.bytes_used(), coordinator.shard_count()), (2, 1));
    }
}

#[test]
fn split_with_a_used_derived_id_changes_nothing() {
    let mut coordinator = coordinator(small(), 1);
    let lease = acquire(&mut coordinator, 1, 0);
    let taken = derive_split_shard_id(lease.key(), op(2), DerivedShardKind::Residual, 0);
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let head = ShardHead::new(
        TENANT,
        ShardKey::new(RUN, taken),
        Some(lease.shard()),
        CursorSemantics::Completed,
    );
    let located = coordinator.locate(TENANT, lease.key()).unwrap();
    let shard = PooledShard::insert(located.room, head, spec, CursorUpdate::initial()).unwrap();
    located.run.insert_all(vec![shard]);
    let used = coordinator.bytes_used();
    let plan = plan_split_residual(spec, CursorUpdate::initial(), b"am").unwrap();
    let refused = coordinator.split_residual(at(2), TENANT, &lease, &plan, op(2));
    assert_eq!(refused, Err(SplitInvalid::DerivedIdCollision { shard: taken }.into()));
    assert_eq!(coordinator.bytes_used(), used);
    coordinator.split_residual(at(2), TENANT, &lease, &plan, op(3)).unwrap();
}

#[test]
#[should_panic(expected = "a cursor stands in its shard's range")]
fn new_shard_that_breaks_an_invariant_panics() {
    let mut room = ByteBudget::try_new(2, 100).unwrap();
    let head = ShardHead::new(TENANT, key(0), None, CursorSemantics::Completed);
    let (spec, outside) = (ShardSpecRef::new(b"a", b"b", b""), CursorUpdate::at(b"b"));
    _ = PooledShard::insert(&mut room, head, spec, outside);
}

#[test]
#[should_panic(expected = "a shard has a parent if and only if its id is a derived one")]
fn new_shard_with_a_derived_id_needs_a_parent() {
    let mut room = ByteBudget::try_new(2, 100).unwrap();
    let child = ShardKey::new(RUN, ShardId::from_raw(0).into_derived());
    let head = ShardHead::new(TENANT, child, None, CursorSemantics::Completed);
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    _ = PooledShard::insert(&mut room, head, spec, CursorUpdate::initial());
}

#[test]
fn split_request_is_answered_by_split_or_decline() {
    let mut coordinator = coordinator(small(), 2);
    let lease = acquire(&mut coordinator, 1, 0);
    let ask = |coordinator: &mut InMemoryCoordinator, now, shard, id| {
        coordinator.request_split(at(now), TENANT, key(shard), worker(id), at(now + 50))
    };
    assert!(ask(&mut coordinator, 2, 1, 5).is_err(), "the shard has no holder");
    ask(&mut coordinator, 2, 0, 5).unwrap();
    assert!(ask(&mut coordinator, 3, 0, 6).is_err(), "one request per shard");
    let notice = coordinator.renew(at(3), TENANT, &lease).unwrap().notice.unwrap();
    assert_eq!(notice.split_request.unwrap().requester, worker(5));
    let at_key = CursorUpdate::at(b"aa");
    let notice = coordinator.checkpoint(at(4), TENANT, &lease, at_key, op(2)).unwrap();
    assert_eq!(notice.into_inner().unwrap().split_request.unwrap().requested_at, at(2));
    let replayed = coordinator.checkpoint(at(4), TENANT, &lease, at_key, op(2)).unwrap();
    assert_eq!(replayed, IdempotentOutcome::Replayed(None), "a replay carries no notice");

    coordinator.decline_split(at(5), TENANT, &lease, at(20)).unwrap();
    let asked = |coordinator: &mut InMemoryCoordinator, now, lease: &Lease| {
        coordinator.renew(at(now), TENANT, lease).unwrap().notice.unwrap().split_request
    };
    assert_eq!(asked(&mut coordinator, 5, &lease), None);
    assert!(ask(&mut coordinator, 19, 0, 5).is_err());
    ask(&mut coordinator, 20, 0, 5).unwrap();

    let other = acquire(&mut coordinator, 20, 1);
    assert!(ask(&mut coordinator, 21, 1, 5).is_err(), "one request per requester");
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let plan = plan_split_residual(spec, at_key, b"am").unwrap();
    coordinator.split_residual(at(22), TENANT, &lease, &plan, op(3)).unwrap();
    assert_eq!(asked(&mut coordinator, 22, &lease), None);
    ask(&mut coordinator, 23, 1, 5).unwrap();
    coordinator.release(at(24), TENANT, &other, op(4)).unwrap();
    acquire(&mut coordinator, 25, 1);
    ask(&mut coordinator, 25, 0, 5).unwrap();
}

#[test]
fn watermark_stays_when_a_split_repeats_work() {
    let mut coordinator = coordinator(small(), 1);
    let lease = acquire(&mut coordinator, 1, 0);
    coordinator.checkpoint(at(2), TENANT, &lease, CursorUpdate::at(b"ak"), op(2)).unwrap();
    let watermark = |coordinator: &mut InMemoryCoordinator| {
        coordinator.get_run_progress(at(3), TENANT, RUN).unwrap().watermark.unwrap()
    };
    assert_eq!(&*watermark(&mut coordinator), b"ak");
    let spec = ShardSpecRef::new(b"a", b"b", b"");
    let fresh = plan_split_replace(spec, CursorUpdate::initial(), &[b"ac"]).unwrap();
    coordinator.split_replace(at(3), TENANT, &lease, &fresh, op(3)).unwrap();
    assert_eq!(&*watermark(&mut coordinator), b"ak");
}

#[test]
fn requester_has_at_most_one_open_request() {
    let mut coordinator = coordinator(small(), 3);
    for shard in 0..3 {
        acquire(&mut coordinator, 1, shard);
    }
    let ask = |coordinator: &mut InMemoryCoordinator, now, shard, id, until| {
        coordinator.request_split(at(now), TENANT, key(shard), worker(id), at(until))
    };
    ask(&mut coordinator, 20, 0, 2, 30).unwrap();
    ask(&mut coordinator, 30, 1, 2, 99).unwrap();
    ask(&mut coordinator, 31, 0, 3, 99).unwrap();
    assert!(ask(&mut coordinator, 32, 2, 2, 99).is_err(), "its request is for shard 1");
}

#[test]
fn clock_set_back_does_not_reopen_a_request() {
    let mut coordinator = coordinator(small(), 3);
    let first = acquire(&mut coordinator, 1, 0);
    acquire(&mut coordinator, 1, 1);
    let ask = |coordinator: &mut InMemoryCoordinator, now, shard| {
        coordinator.request_split(at(now), TENANT, key(shard), worker(2), at(now + 10))
    };
    ask(&mut coordinator, 20, 0).unwrap();
    ask(&mut coordinator, 30, 1).unwrap();
    let notice = coordinator.renew(at(25), TENANT, &first).unwrap().notice.unwrap();
    assert_eq!(notice.split_request, None, "its request is for shard 1");
    ask(&mut coordinator, 26, 1).unwrap();
}

#[test]
fn new_holder_has_no_split_request() {
    let mut coordinator = coordinator(small(), 1);
    let first = acquire(&mut coordinator, 1, 0);
    coordinator.request_split(at(2), TENANT, key(0), worker(5), at(900)).unwrap();
    let second = acquire(&mut coordinator, 101, 0);
    let notice = coordinator.renew(at(102), TENANT, &second).unwrap().notice.unwrap();
    assert_eq!(notice.split_request, None);
    coordinator.decline_split(at(103), TENANT, &second, at(900)).unwrap();
    assert!(coordinator.decline_split(at(103), TENANT, &first, at(900)).is_err());
    acquire(&mut coordinator, 202, 0);
    coordinator.request_split(at(203), TENANT, key(0), worker(5), at(900)).unwrap();
}

#[test]
fn granted_worker_stops_waiting() {
    let mut coordinator = coordinator(small(), 1);
    let lease = acquire(&mut coordinator, 1, 0);
    assert!(claim(&mut coordinator, 50, 5).is_err());
    coordinator.release(at(51), TENANT, &lease, op(2)).unwrap();
    let mut scratch = AcquireScratch::new();
    let claimed =
        coordinator.claim_next_available(at(52), TENANT, RUN, worker(5), &mut scratch).unwrap();
    assert_eq!(claimed.capacity.waiting_workers, 0);
}

#[test]
fn events_of_several_tenants_are_collected() {
    let mut coordinator = InMemoryCoordinator::try_new(small()).unwrap();
    coordinator.collect_events();
    for tenant in [TENANT, STRANGER] {
        coordinator.create_run(at(1), tenant, RUN, config()).unwrap();
    }
    let tenants: Vec<_> = coordinator.take_events().iter().map(|event| event.tenant).collect();
    assert_eq!(tenants, [TENANT, STRANGER]);
}
