//! Changed values of records.

use bytes::Bytes;
use shardwright_contracts::{Cursor, ShardSpec, ShardSpecRef};
use shardwright_coordination::{RunStatus, ShardStatus};
use shardwright_engine::codec::Record;
use shardwright_runs::records::{
    BindingRecord, DefinitionRecord, ProgressRecord, RunHeadRecord, WatermarkRecord,
};

/// Time that a bug adds to leases.
const AN_HOUR_MS: u64 = 3_600_000;

/// The record of an active run, changed to an ended one.
pub(super) fn as_ended(value: &[u8]) -> Option<Bytes> {
    let run = RunHeadRecord::decode(value).ok().filter(|run| run.status == RunStatus::Active)?;
    let completed_at = Some(run.created_at);
    Some(RunHeadRecord { status: RunStatus::Done, paused: false, completed_at, ..run }.encode())
}

/// The record of an ended run, changed to an active one.
pub(super) fn as_active(value: &[u8]) -> Option<Bytes> {
    let run = RunHeadRecord::decode(value).ok();
    let run = run.filter(|run| run.status.is_terminal() && !run.collecting)?;
    Some(RunHeadRecord { status: RunStatus::Active, completed_at: None, ..run }.encode())
}

/// The binding of an owner with a longer lease.
pub(super) fn with_longer_lease(value: &[u8]) -> Option<Bytes> {
    let binding = BindingRecord::decode(value).ok()?;
    let deadline = binding.deadline.saturating_add(AN_HOUR_MS);
    Some(BindingRecord { deadline, ..binding }.encode())
}

/// The definition of a shard whose first key is missing.
pub(super) fn without_first_key(value: &[u8]) -> Option<Bytes> {
    let definition = DefinitionRecord::decode(value).ok()?;
    let spec = definition.spec.as_spec_ref();
    let start = [spec.start(), &[0]].concat();
    let spec = ShardSpec::try_from_ref(ShardSpecRef::new(&start, spec.end(), spec.metadata()));
    Some(DefinitionRecord { spec: spec.ok()?, ..definition }.encode())
}

/// The progress of a held shard without its cursor.
pub(super) fn without_cursor(value: &[u8]) -> Option<Bytes> {
    let progress = ProgressRecord::decode(value).ok().filter(|it| it.lease.is_some())?;
    Some(ProgressRecord { cursor: Cursor::initial(), ..progress }.encode())
}

/// The progress of an active shard, changed to that of a done one.
pub(super) fn as_done(value: &[u8]) -> Option<Bytes> {
    let progress = ProgressRecord::decode(value).ok();
    let progress = progress.filter(|it| it.status == ShardStatus::Active)?;
    Some(ProgressRecord { status: ShardStatus::Done, lease: None, ..progress }.encode())
}

/// A watermark behind the key that it should stand at.
pub(super) fn further(value: &[u8]) -> Option<Bytes> {
    let WatermarkRecord { reached } = WatermarkRecord::decode(value).ok()?;
    Some(WatermarkRecord { reached: [&*reached, &[0xff]].concat().into() }.encode())
}
