//! Records of the run protocol.
//!
//! A shard is two records because every checkpoint writes one of them: [`DefinitionRecord`] is up
//! to 41 kB long and rarely changes, [`ProgressRecord`] is short. A run is a [`RunHeadRecord`] and
//! a [`ManifestRecord`], which never changes. [`split_shard`], [`join_shard`], [`split_run`] and
//! [`join_run`] convert between these and the records of the operations.

mod run;
mod shard;

use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_RUN_DESCRIPTION_SIZE};
use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, FenceEpoch, LogicalTime, OpId, RunId, ShardId, TenantId,
    WorkerId,
};
use shardwright_coordination::ops::SplitRequestSlot;
use shardwright_coordination::{
    InvariantViolation, OpKind, OpResult, ParkReason, RunConfig, RunLabel, RunName, RunOpLog,
    RunRecord, RunState, RunStatus, ShardStatus, SplitRequest, WorkEstimate,
};
use shardwright_engine::codec::{DecodeError, Field, Reader};
use shardwright_engine::{fields, record};

pub use self::run::{ManifestRecord, RunHeadRecord, join_run, split_run};
pub use self::shard::{DefinitionRecord, ProgressRecord, join_shard, split_shard};

/// The run protocol, whose records are declared here.
#[derive(Debug)]
pub enum RunProtocol {}

record! { RunProtocol:
    /// State of a run that its shards' operations need. Stored apart from [`RunHeadRecord`],
    /// which changes more often.
    #[derive(Copy)]
    RunStateRecord: RecordKind::RunState {
        /// Status of the run.
        status: RunStatus,
        /// Whether the run is paused: no shard is handed out.
        paused: bool,
        /// Configuration of the run.
        config: RunConfig,
    } check(RunStateRecord::checked)

    /// Owner of a shard. Deleted with the owner's session, if it has one.
    #[derive(Copy)]
    BindingRecord: RecordKind::Binding {
        /// The worker.
        owner: WorkerId,
        /// Fence of its lease.
        fence: FenceEpoch,
        /// End of its lease.
        deadline: LogicalTime,
    }

    /// A worker that found no shard to claim and waits for one.
    #[derive(Copy)]
    WaitingWorkerRecord: RecordKind::WaitingWorker {
        /// When it stops waiting.
        until: LogicalTime,
    }

    /// A claimable shard. The record has no fields; its key names the shard.
    ClaimableRecord: RecordKind::Claimable

    /// Split request to the holder of a shard.
    #[derive(Copy)]
    SplitRequestRecord: RecordKind::SplitRequest {
        /// Fence of the holder. Requests to an earlier holder are void.
        fence: FenceEpoch,
        /// The request, and when the next one is permitted.
        slot: SplitRequestSlot,
    }

    /// A worker that has requested a split. It limits each worker to one request at a time.
    #[derive(Copy)]
    RequesterRecord: RecordKind::Requester {
        /// The shard to split.
        shard: ShardId,
    }

    /// Shards of a run, existing and reserved.
    #[derive(Copy)]
    RunShardsRecord: RecordKind::RunShards {
        /// Number of shards that exist.
        used: u64,
        /// Number of shards that may exist before the run must reserve more. At least `used`.
        reserved: u64,
    } check(RunShardsRecord::checked)

    /// Shards reserved by the runs of one tenant, or by all runs.
    #[derive(Copy)]
    ReservedShardsRecord: RecordKind::ReservedShards {
        /// Number of shards.
        reserved: u64,
    }

    /// Registration in progress, which only the same registration can resume, or its removal by a
    /// cancellation.
    ///
    /// `Debug` omits the fingerprint: a reader could test guesses of the registered shards on it.
    #[derive(Copy)]
    StageRecord: RecordKind::Stage {
        /// Id of the operation.
        op: OpId,
        /// Fingerprint of its parameters.
        payload_hash: u64,
    } shows(op)

    /// Watermark of a run. `Debug` omits the key, which is user data.
    WatermarkRecord: RecordKind::Watermark {
        /// Every key below this one is done.
        reached: Box<[u8]>,
    } shows() check(WatermarkRecord::checked)

    /// A holder's estimate of its remaining work.
    #[derive(Copy)]
    EstimateRecord: RecordKind::Estimate {
        /// Fence of the holder's lease.
        fence: FenceEpoch,
        /// The holder.
        holder: WorkerId,
        /// When it made the estimate.
        at: LogicalTime,
        /// The estimate.
        estimate: WorkEstimate,
    }

    /// Run to which a name refers.
    #[derive(Copy)]
    RunNameRecord: RecordKind::RunName {
        /// The run.
        run: RunId,
    }

    /// Label of a run.
    RunLabelRecord: RecordKind::RunLabel {
        /// Name under which the run was started, and its description.
        label: RunLabel,
    } check(RunLabelRecord::checked)
}

impl RunStateRecord {
    /// Returns the state of a run.
    #[must_use]
    pub const fn of(record: &RunRecord) -> Self {
        Self { status: record.status, paused: record.paused, config: record.config }
    }

    /// Returns the state in the form that operations take.
    #[must_use]
    pub const fn for_run(self, run: RunId, fence_floor: FenceEpoch) -> RunState {
        let Self { status, paused, config } = self;
        RunState { run, status, paused, config, fence_floor }
    }

    /// Returns the simplest run in this state.
    fn simplest_run(self) -> RunHeadRecord {
        let Self { status, paused, config } = self;
        RunHeadRecord {
            tenant: TenantId::from_bytes([0; 32]),
            run: RunId::from_raw(0),
            config,
            status,
            paused,
            created_at: LogicalTime::ZERO,
            completed_at: status.is_terminal().then_some(LogicalTime::ZERO),
            op_log: RunOpLog::new(),
            collecting: false,
        }
    }

    /// Returns the state if a run can have it. The invariants are those of a run.
    fn checked(self) -> Result<Self, InvariantViolation> {
        self.simplest_run().checked().map(|_| self)
    }
}

impl RunShardsRecord {
    fn checked(self) -> Result<Self, InvariantViolation> {
        let violation = InvariantViolation("a run has no more shards than it reserved");
        if self.used <= self.reserved { Ok(self) } else { Err(violation) }
    }
}

impl WatermarkRecord {
    fn checked(self) -> Result<Self, InvariantViolation> {
        let violation = InvariantViolation("a watermark is no longer than a key");
        if self.reached.len() <= MAX_KEY_SIZE { Ok(self) } else { Err(violation) }
    }
}

impl RunLabelRecord {
    fn checked(self) -> Result<Self, InvariantViolation> {
        let violation = InvariantViolation("a description is no longer than its limit");
        if self.label.description.len() <= MAX_RUN_DESCRIPTION_SIZE {
            Ok(self)
        } else {
            Err(violation)
        }
    }
}

fields! { RunProtocol:
    SplitRequest { requester: WorkerId, requested_at: LogicalTime, expires_at: LogicalTime }
    SplitRequestSlot { open: Option<SplitRequest>, not_before: Option<LogicalTime> }
    WorkEstimate {
        done_items: u64,
        done_bytes: u64,
        left_items: Option<u64>,
        left_bytes: Option<u64>,
        left_ms: Option<u64>,
        is_indivisible: bool,
    }
    RunLabel { name: RunName, description: Box<[u8]> }
}

/// Implements `Field` for enums of one byte.
macro_rules! choices {
    ($($name:ident),+) => {$(
        impl Field<RunProtocol> for $name {
            fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
                self.write_canonical(sink);
            }

            fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
                reader.choice(name)
            }
        }
    )+};
}

choices!(RunStatus, ShardStatus, ParkReason, OpKind, OpResult);

impl Field<RunProtocol> for RunConfig {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let Self { cursor_semantics, lease_duration_ms, max_shard_retries } = self;
        cursor_semantics.write_canonical(sink);
        sink.put_u64(lease_duration_ms.get());
        Field::<RunProtocol>::put(max_shard_retries, sink);
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        let cursor_semantics = reader.choice("cursor_semantics")?;
        let lease_duration_ms = reader.u64()?;
        let max_shard_retries =
            <Option<u32> as Field<RunProtocol>>::get(reader, "max_shard_retries")?;
        Self::try_new(cursor_semantics, lease_duration_ms, max_shard_retries)
            .map_err(|error| reader.invalid_at(offset, error))
    }
}

impl Field<RunProtocol> for RunName {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_bytes(self.as_str().as_bytes());
    }

    fn get(reader: &mut Reader<'_>, _name: &'static str) -> Result<Self, DecodeError> {
        let name = str::from_utf8(reader.bytes()?).ok().and_then(|name| Self::new(name).ok());
        reader.sound(name.ok_or(InvariantViolation("the name of a run is valid")))
    }
}
