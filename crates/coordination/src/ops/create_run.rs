use shardwright_contracts::RunId;

use super::{RunCall, assert_sound};
use crate::error::CreateRunError;
use crate::error::reason::{ConfigMismatch, RunAlreadyExists};
use crate::events::{EventCollector, EventKind};
use crate::op_log::RunOpLog;
use crate::record::{RunConfig, RunRecord};
use crate::status::RunStatus;

/// Makes a run that waits for its shards, unless there is one of that id. Emits `RunCreated`.
pub fn create_run(
    call: &RunCall,
    run: RunId,
    config: RunConfig,
    existing: Option<&RunRecord>,
    events: &mut EventCollector,
) -> Result<RunRecord, CreateRunError> {
    if let Some(existing) = existing {
        return Err(if existing.config == config {
            RunAlreadyExists { run }.into()
        } else {
            ConfigMismatch { run }.into()
        });
    }
    let record = RunRecord {
        tenant: call.tenant,
        run,
        config,
        status: RunStatus::Initializing,
        paused: false,
        created_at: call.now,
        completed_at: None,
        root_shards: Vec::new(),
        op_log: RunOpLog::new(),
    };
    assert_sound(record.check_invariants());
    call.emit(run, events, || EventKind::RunCreated);
    Ok(record)
}

/// The run that is to be made before shards are registered with it; none if there is one that may
/// be taken up, because it was made for the same. Emits what [`create_run`] does.
pub fn adopt_run(
    call: &RunCall,
    run: RunId,
    config: RunConfig,
    existing: Option<&RunRecord>,
    events: &mut EventCollector,
) -> Result<Option<RunRecord>, CreateRunError> {
    match create_run(call, run, config, existing, events) {
        Ok(record) => Ok(Some(record)),
        Err(CreateRunError::RunAlreadyExists(_)) => Ok(None),
        Err(error) => Err(error),
    }
}
