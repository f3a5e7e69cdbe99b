//! Records of the run protocol, apart from those of a shard and of a run.

use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, FenceEpoch, LogicalTime, OpId, RunId, TenantId, WorkerId,
};
use shardwright_coordination::{
    InvariantViolation, RunConfig, RunGate, RunOpLog, RunRecord, RunStatus,
};

use super::error::{DecodeError, Problem};
use super::field::Field;
use super::reader::Reader;
use super::run::Run;
use crate::record;

/// The run protocol, whose records are declared here.
#[derive(Debug)]
pub enum RunProtocol {}

record! { RunProtocol:
    /// State of a run that its shards' operations need. Apart from [`Run`], which changes more
    /// often.
    #[derive(Copy)]
    Gate: Kind::Gate {
        /// Status of the run.
        status: RunStatus,
        /// Whether the run is paused: no shard is handed out.
        paused: bool,
        /// Configuration of the run.
        config: RunConfig,
    } check(Gate::checked)

    /// Owner of a shard. Deleted with the owner's session, if it has one.
    #[derive(Copy)]
    Binding: Kind::Binding {
        /// The worker.
        owner: WorkerId,
        /// Fence of its lease.
        fence: FenceEpoch,
        /// End of its lease.
        deadline: LogicalTime,
    }

    /// Registration in progress, which only the same registration can resume.
    ///
    /// `Debug` omits the fingerprint: a reader could test guesses of the registered shards on it.
    #[derive(Copy)]
    Stage: Kind::Stage {
        /// Id of the registration.
        op: OpId,
        /// Fingerprint of what it registers.
        payload_hash: u64,
    } shows(op)
}

impl Gate {
    /// Returns the gate of a run.
    #[must_use]
    pub const fn of(record: &RunRecord) -> Self {
        Self { status: record.status, paused: record.paused, config: record.config }
    }

    /// Returns the gate in the form that operations take.
    #[must_use]
    pub const fn for_run(self, run: RunId, fence_floor: FenceEpoch) -> RunGate {
        let Self { status, paused, config } = self;
        RunGate { run, status, paused, config, fence_floor }
    }

    /// Returns the gate if a run can have it. The invariants are those of a run.
    fn checked(self) -> Result<Self, InvariantViolation> {
        let Self { status, paused, config } = self;
        let run = Run {
            tenant: TenantId::from_bytes([0; 32]),
            run: RunId::from_raw(0),
            config,
            status,
            paused,
            created_at: LogicalTime::ZERO,
            completed_at: status.is_terminal().then_some(LogicalTime::ZERO),
            op_log: RunOpLog::new(),
            collecting: false,
        };
        run.checked().map(|_| self)
    }
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

choices!(RunStatus);

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
            .map_err(|error| reader.fail_at(offset, Problem::Config(error)))
    }
}
