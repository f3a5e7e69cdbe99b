use std::num::NonZeroU32;

use shardwright_contracts::{InitialShardInput, ManifestValidationError, ShardSpecRef};

use super::*;
use crate::error::reason::{
    ConfigMismatch, RunAlreadyExists, RunTerminal, RunUnfinished, TenantMismatch, WrongStatus,
};
use crate::progress::RunProgress;
use crate::record::RunRecord;

const CALL: RunCall = RunCall { now: LogicalTime::from_millis(50), tenant: TENANT };
const RUN: RunId = RunId::from_raw(7);

fn config() -> RunConfig {
    RunConfig::try_new(CursorSemantics::Completed, LEASE_MS, None).unwrap()
}

fn created() -> RunRecord {
    create_run(&CALL, RUN, config(), None, &mut EventCollector::new()).unwrap()
}

fn manifest() -> [InitialShardInput<'static>; 2] {
    let input = |id, start, end| InitialShardInput {
        shard: ShardId::from_raw(id),
        spec: ShardSpecRef::new(start, end, b""),
        cursor: CursorUpdate::initial(),
    };
    [input(2, b"m", b"z"), input(1, b"a", b"m")]
}

fn active() -> RunRecord {
    let mut record = created();
    let step = register_shards(&CALL, &record, &manifest(), op(1)).unwrap();
    let RegisterStep::Ready(pending) = step else { panic!("a replay of a new operation") };
    assert_eq!(pending.shard_count(), 2);
    pending.apply(&CALL, &mut record, &mut EventCollector::new());
    record
}

fn all_done() -> RunProgress {
    RunProgress { done: 2, ..RunProgress::default() }
}

/// Calls a transition. Checks that a refusal changed nothing.
fn change(
    record: &mut RunRecord,
    change: RunChange<'_>,
    id: u64,
) -> Result<IdempotentOutcome<()>, CoordError> {
    let before = record.clone();
    let result = change_run(&CALL, record, change, op(id), &mut EventCollector::new());
    if result.is_err() {
        assert_eq!(*record, before);
    }
    record.check_invariants().unwrap();
    result.map_err(Into::into)
}

#[test]
fn run_is_created_once() {
    let record = created();
    assert_eq!((record.status, record.created_at), (RunStatus::Initializing, CALL.now));
    let events = &mut EventCollector::new();
    let again = create_run(&CALL, RUN, config(), Some(&record), events).unwrap_err();
    assert_eq!(again, RunAlreadyExists { run: RUN }.into());
    let other = RunConfig { max_shard_retries: NonZeroU32::new(1), ..config() };
    let again = create_run(&CALL, RUN, other, Some(&record), events).unwrap_err();
    assert_eq!(again, ConfigMismatch { run: RUN }.into());
    assert!(events.is_empty());
}

#[test]
fn registration_starts_the_run_in_any_order() {
    let record = active();
    assert_eq!(record.status, RunStatus::Active);
    assert_eq!(record.root_shards, [1, 2].map(ShardId::from_raw));
    let mut reversed = manifest();
    reversed.reverse();
    let again = register_shards(&CALL, &record, &reversed, op(1)).unwrap();
    assert!(matches!(again, RegisterStep::Replayed));
    let conflict = register_shards(&CALL, &record, &manifest()[..1], op(1)).unwrap_err();
    assert!(matches!(CoordError::from(conflict), CoordError::OpIdConflict(_)));
    let late = register_shards(&CALL, &record, &manifest(), op(2)).unwrap_err();
    assert_eq!(late, WrongStatus { run: RUN, status: RunStatus::Active }.into());
}

#[test]
fn invalid_manifest_is_refused() {
    let empty = register_shards(&CALL, &created(), &[], op(1)).unwrap_err();
    assert_eq!(empty, ManifestValidationError::Empty.into());
}

#[test]
fn run_completes_only_with_all_shards_done() {
    let mut record = active();
    for (active, parked) in [(1, 0), (0, 1), (2, 3)] {
        let progress = RunProgress { active, parked, ..all_done() };
        let refusal = change(&mut record, RunChange::Complete(&progress), 2).unwrap_err();
        assert_eq!(refusal, RunUnfinished { run: RUN, active, parked }.into());
    }
    let split = RunProgress { split: 1, ..all_done() };
    assert_eq!(change(&mut record, RunChange::Complete(&split), 2), executed());
    assert_eq!((record.status, record.completed_at), (RunStatus::Done, Some(CALL.now)));
}

#[test]
fn ended_run_stays_ended() {
    for (end, status) in [
        (RunChange::Complete(&all_done()), RunStatus::Done),
        (RunChange::Fail, RunStatus::Failed),
        (RunChange::Cancel, RunStatus::Cancelled),
    ] {
        let mut record = active();
        assert_eq!(change(&mut record, end, 2), executed());
        assert_eq!(record.status, status);
        assert_eq!(change(&mut record, end, 2), replayed());
        for next in [end, RunChange::Fail, RunChange::Cancel, RunChange::Pause, RunChange::Resume] {
            let refusal = change(&mut record, next, 3).unwrap_err();
            assert_eq!(refusal, RunTerminal { run: RUN, status }.into());
        }
    }
}

#[test]
fn initializing_run_can_only_be_cancelled() {
    for early in
        [RunChange::Complete(&all_done()), RunChange::Fail, RunChange::Pause, RunChange::Resume]
    {
        let refusal = change(&mut created(), early, 2).unwrap_err();
        assert_eq!(refusal, WrongStatus { run: RUN, status: RunStatus::Initializing }.into());
    }
    assert_eq!(change(&mut created(), RunChange::Cancel, 2), executed());
}

#[test]
fn paused_run_can_be_resumed_or_ended() {
    let mut record = active();
    assert_eq!(change(&mut record, RunChange::Pause, 2), executed());
    assert!(record.paused && record.state(FenceEpoch::INITIAL).paused);
    assert_eq!(change(&mut record, RunChange::Pause, 2), replayed());
    assert_eq!(change(&mut record, RunChange::Pause, 3), executed(), "pausing twice is accepted");
    assert_eq!(change(&mut record, RunChange::Resume, 4), executed());
    assert!(!record.paused);
    change(&mut record, RunChange::Pause, 5).unwrap();
    assert_eq!(change(&mut record, RunChange::Cancel, 6), executed());
    assert!(!record.paused);
}

#[test]
fn other_tenants_run_is_not_found() {
    let stranger = RunCall { tenant: STRANGER, ..CALL };
    let mut record = active();
    let events = &mut EventCollector::new();
    let refusal = change_run(&stranger, &mut record, RunChange::Fail, op(9), events).unwrap_err();
    assert_eq!(refusal, TenantMismatch { expected: STRANGER }.into());
    let refusal = register_shards(&stranger, &record, &manifest(), op(1)).unwrap_err();
    assert_eq!(refusal, TenantMismatch { expected: STRANGER }.into());
}
