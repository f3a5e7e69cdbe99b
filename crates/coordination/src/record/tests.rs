//! Every invariant is checked and named.

use shardwright_contracts::{
    Cursor, CursorSemantics, CursorUpdate, FenceEpoch, LogicalTime, OpId, RunId, ShardId, ShardKey,
    ShardSpec, TenantId, WorkerId,
};

use super::*;
use crate::lease::LeaseHolder;
use crate::op_log::{OpKind, OpLog, OpLogEntry, OpResult, RunOpLog};
use crate::status::{ParkReason, RunStatus, ShardStatus};

/// A part of the invariant's text, and a change that breaks it.
type Break<R> = (&'static str, fn(&mut R));

fn head() -> ShardHead {
    let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(2));
    ShardHead::new(TenantId::from_bytes([1; 32]), key, None, CursorSemantics::Completed)
}

fn holder() -> LeaseHolder {
    LeaseHolder { owner: WorkerId::from_raw(1), deadline: LogicalTime::from_millis(9) }
}

fn entry(op: u64, at: u64) -> OpLogEntry {
    OpLogEntry {
        op: OpId::from_raw(op),
        kind: OpKind::Checkpoint,
        result: OpResult::Completed,
        payload_hash: 1,
        executed_at: LogicalTime::from_millis(at),
    }
}

fn of_run(op: u64, at: u64) -> OpLogEntry {
    OpLogEntry { kind: OpKind::PauseRun, ..entry(op, at) }
}

fn spawned(raw: u64) -> Spawned {
    Spawned { shard: ShardId::from_raw(raw), payload_hash: 0 }
}

#[test]
fn broken_shard_invariants_are_named() {
    let derived = 1 << 63;
    let park = |len| Some(Park { reason: ParkReason::Other, detail: vec![0; len].into() });
    let breaks: [Break<ShardHead>; 13] = [
        ("park reason", |head| head.status = ShardStatus::Parked),
        ("park reason", |head| {
            head.park = Some(Park { reason: ParkReason::Other, detail: Box::default() });
        }),
        ("not leased", |head| {
            head.status = ShardStatus::Done;
            head.lease = Some(holder());
        }),
        ("has children", |head| head.status = ShardStatus::Split),
        ("has a parent", |head| head.parent = Some(ShardId::from_raw(1))),
        ("has a parent", |head| head.key.shard = head.key.shard.into_derived()),
        ("derived ids", |head| head.spawned = vec![spawned(5)]),
        ("no more than it may", |head| head.spawned = vec![spawned(1 << 63); 1_025]),
        ("no id twice", |head| head.op_log = OpLog::from_entries([entry(1, 1), entry(1, 2)])),
        ("bounded", |head| {
            head.op_log = OpLog::from_entries((0..17).map(|op| entry(op, op)));
        }),
        ("done to the shard", |head| head.op_log = OpLog::from_entries([of_run(1, 1)])),
        ("fence has risen", |head| head.lease = Some(holder())),
        ("are acquires", |head| head.acquires_without_progress = 1),
    ];
    for (expected, break_it) in breaks {
        let mut broken = head();
        broken.check_invariants().unwrap();
        break_it(&mut broken);
        let violation = broken.check_invariants().unwrap_err();
        assert!(violation.to_string().contains(expected), "{violation} does not name: {expected}");
    }
    let mut parked = head();
    (parked.status, parked.park) = (ShardStatus::Parked, park(1_024));
    parked.check_invariants().unwrap();
    parked.park = park(1_025);
    assert!(parked.check_invariants().is_err());
    let mut child = head();
    child.key.shard = ShardId::from_raw(derived);
    child.parent = Some(ShardId::from_raw(1));
    child.spawned = vec![spawned(derived); 1_024];
    child.status = ShardStatus::Split;
    child.check_invariants().unwrap();
}

#[test]
fn cursor_outside_its_shard_is_detected() {
    let mut record = ShardRecord {
        head: head(),
        spec: ShardSpec::try_new(b"b", b"d", b"").unwrap(),
        cursor: Cursor::try_from_update(CursorUpdate::at(b"c")).unwrap(),
    };
    record.check_invariants().unwrap();
    record.cursor = Cursor::try_from_update(CursorUpdate::at(b"d")).unwrap();
    assert!(record.check_invariants().is_err());
}

#[test]
fn record_returns_its_fence_and_park_reason() {
    let mut record = ShardRecord {
        head: head(),
        spec: ShardSpec::try_new(b"b", b"d", b"").unwrap(),
        cursor: Cursor::initial(),
    };
    assert_eq!((record.fence_epoch(), record.park_reason()), (FenceEpoch::INITIAL, None));
    record.head.fence = FenceEpoch::from_raw(7).unwrap();
    record.head.park = Some(Park { reason: ParkReason::Poisoned, detail: Box::default() });
    assert_eq!(record.fence_epoch(), record.head.fence);
    assert_eq!(record.park_reason(), Some(ParkReason::Poisoned));
    assert_eq!(entry(3, 1).op_id(), OpId::from_raw(3));
}

#[test]
fn snapshot_shows_the_owners_part_of_a_shard() {
    let mut record = ShardRecord {
        head: head(),
        spec: ShardSpec::try_new(b"b", b"d", b"m").unwrap(),
        cursor: Cursor::try_from_update(CursorUpdate::at(b"c")).unwrap(),
    };
    record.head.spawned = vec![spawned(1 << 63)];
    (record.head.acquire_count, record.head.acquires_without_progress) = (5, 2);
    let view = ShardSnapshotView::of(&record);
    assert_eq!((view.status, view.parent), (ShardStatus::Active, None));
    assert_eq!((view.spec, view.cursor), (record.spec.as_spec_ref(), CursorUpdate::at(b"c")));
    assert_eq!(view.spawned, record.head.spawned);
    assert_eq!(view.cursor_semantics, CursorSemantics::Completed);
    assert_eq!((view.acquires, view.acquires_without_progress), (5, 2));
}

fn run() -> RunRecord {
    RunRecord {
        tenant: TenantId::from_bytes([1; 32]),
        run: RunId::from_raw(1),
        config: RunConfig::try_new(CursorSemantics::Completed, 1, None).unwrap(),
        status: RunStatus::Active,
        paused: false,
        created_at: LogicalTime::from_millis(5),
        completed_at: None,
        root_shards: vec![ShardId::from_raw(1), ShardId::from_raw(2)],
        op_log: RunOpLog::new(),
    }
}

#[test]
fn broken_run_invariants_are_named() {
    let breaks: [Break<RunRecord>; 13] = [
        ("if and only if it has ended", |run| run.completed_at = Some(run.created_at)),
        ("if and only if it has ended", |run| run.status = RunStatus::Done),
        ("before it was created", |run| {
            run.status = RunStatus::Failed;
            run.completed_at = Some(LogicalTime::from_millis(4));
        }),
        ("initializing has no shards", |run| run.status = RunStatus::Initializing),
        ("started has shards", |run| run.root_shards.clear()),
        ("only an active run", |run| {
            run.status = RunStatus::Cancelled;
            run.completed_at = Some(run.created_at);
            run.paused = true;
        }),
        ("bounded", |run| run.root_shards = (0..10_001).map(ShardId::from_raw).collect()),
        ("unique", |run| run.root_shards = vec![ShardId::from_raw(1); 2]),
        ("in order", |run| run.root_shards.reverse()),
        ("no derived ids", |run| run.root_shards.push(ShardId::from_raw(1 << 63))),
        ("no id twice", |run| run.op_log = OpLog::from_entries([of_run(1, 1), of_run(1, 2)])),
        ("done to the run", |run| run.op_log = OpLog::from_entries([entry(1, 1)])),
        ("order of time", |run| run.op_log = OpLog::from_entries([of_run(1, 2), of_run(2, 1)])),
    ];
    for (expected, break_it) in breaks {
        let mut broken = run();
        broken.check_invariants().unwrap();
        break_it(&mut broken);
        let violation = broken.check_invariants().unwrap_err();
        assert!(violation.to_string().contains(expected), "{violation} does not name: {expected}");
    }
}

#[test]
fn lease_lasts_at_least_a_millisecond() {
    let zero = RunConfig::try_new(CursorSemantics::Completed, 0, None);
    assert_eq!(zero, Err(RunConfigError::ZeroLeaseDuration));
    let never = RunConfig::try_new(CursorSemantics::Completed, 1, Some(0));
    assert_eq!(never, Err(RunConfigError::ZeroRetries));
}

#[test]
fn run_state_copies_the_record() {
    let floor = FenceEpoch::from_raw(9).unwrap();
    let state = RunRecord { paused: true, ..run() }.state(floor);
    assert_eq!((state.run, state.status), (RunId::from_raw(1), RunStatus::Active));
    assert_eq!((state.paused, state.fence_floor, state.config), (true, floor, run().config));
}
