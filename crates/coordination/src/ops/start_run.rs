//! Creating a run, and starting it with its shards.

use shardwright_contracts::{InitialShardInput, OpId, RunId, ShardId, validate_manifest};

use super::RunCall;
use crate::error::reason::{ConfigMismatch, RunAlreadyExists, WrongStatus};
use crate::error::{CreateRunError, RegisterShardsError};
use crate::events::{EventCollector, EventKind};
use crate::guard::check_tenant_of;
use crate::op_log::{OpAttempt, RunOpLog, check_op_idempotency};
use crate::payload;
use crate::record::{RunConfig, RunRecord};
use crate::status::RunStatus;

/// Creates a run that waits for its shards, unless the id is in use. Emits `RunCreated`.
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
    record.assert_invariants();
    call.emit(run, events, || EventKind::RunCreated);
    Ok(record)
}

/// Creates the run for a registration, or returns `None` if it exists with the same configuration.
/// Emits `RunCreated`.
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

/// The state of a registration after its checks.
#[derive(Debug)]
pub enum RegisterStep {
    /// It was executed before. Nothing is left to do.
    Replayed,
    /// It can be executed: make room for the shards, insert them, then apply it.
    Ready(RegisterPending),
}

/// A registration that passed every check and waits for room.
#[derive(Debug)]
pub struct RegisterPending {
    root_shards: Vec<ShardId>,
    attempt: OpAttempt,
}

/// Checks whether `shards` can become the manifest of a run.
pub fn register_shards(
    call: &RunCall,
    record: &RunRecord,
    shards: &[InitialShardInput<'_>],
    op: OpId,
) -> Result<RegisterStep, RegisterShardsError> {
    check_tenant_of(call.tenant, record.tenant)?;
    let attempt = payload::register_shards(op, shards);
    if check_op_idempotency(&record.op_log, attempt)?.is_some() {
        return Ok(RegisterStep::Replayed);
    }
    if record.status != RunStatus::Initializing {
        return Err(WrongStatus { run: record.run, status: record.status }.into());
    }
    validate_manifest(shards)?;
    let mut root_shards: Vec<ShardId> = shards.iter().map(|input| input.shard).collect();
    root_shards.sort_unstable();
    Ok(RegisterStep::Ready(RegisterPending { root_shards, attempt }))
}

impl RegisterPending {
    /// The operation. A registration in several steps recognises its own records by it.
    #[must_use]
    pub const fn attempt(&self) -> OpAttempt {
        self.attempt
    }

    /// The number of shards to insert.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.root_shards.len()
    }

    /// Starts the run after its shards were inserted. Emits `RunActivated`.
    pub fn apply(self, call: &RunCall, record: &mut RunRecord, events: &mut EventCollector) {
        let shard_count = self.root_shards.len() as u32;
        record.status = RunStatus::Active;
        record.root_shards = self.root_shards;
        record.op_log.record(self.attempt, call.now);
        record.assert_invariants();
        call.emit(record.run, events, || EventKind::RunActivated { shard_count });
    }
}
