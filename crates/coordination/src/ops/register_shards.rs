use shardwright_contracts::{InitialShardInput, OpId, ShardId, validate_manifest};

use super::{RunCall, assert_sound};
use crate::error::RegisterShardsError;
use crate::error::reason::WrongStatus;
use crate::events::{EventCollector, EventKind};
use crate::guard::check_tenant_of;
use crate::op_log::{OpAttempt, check_op_idempotency};
use crate::payload;
use crate::record::RunRecord;
use crate::status::RunStatus;

/// How far a registration has come.
#[derive(Debug)]
pub enum RegisterStep {
    /// It was done before; nothing is left to do.
    Replayed,
    /// It can be done: make room for the shards, insert them, then apply it.
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
    /// The operation, by which a registration in several steps knows its own traces.
    #[must_use]
    pub const fn attempt(&self) -> OpAttempt {
        self.attempt
    }

    /// How many shards there are to insert.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.root_shards.len()
    }

    /// Starts the run, now that its shards are there. Emits `RunActivated`.
    pub fn apply(self, call: &RunCall, record: &mut RunRecord, events: &mut EventCollector) {
        let shard_count = self.root_shards.len() as u32;
        record.status = RunStatus::Active;
        record.root_shards = self.root_shards;
        record.op_log.record(self.attempt, call.now);
        assert_sound(record.check_invariants());
        call.emit(record.run, events, || EventKind::RunActivated { shard_count });
    }
}
