use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, FenceEpoch, LogicalTime, RunId, TenantId,
};
use shardwright_coordination::{
    InvariantViolation, RunConfig, RunGate, RunOpLog, RunRecord, RunStatus,
};

use super::error::DecodeError;
use super::fields::{put_config, put_flag};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::Record;
use super::run::Run;

/// What operations on a run's shards need to know of the run. Apart from the run's record, which
/// changes more often than this does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Where the run is in its life.
    pub status: RunStatus,
    /// Whether nothing new is handed out.
    pub paused: bool,
    /// How its shards are to be worked on.
    pub config: RunConfig,
}

impl Gate {
    /// The gate of a run.
    #[must_use]
    pub const fn of(record: &RunRecord) -> Self {
        Self { status: record.status, paused: record.paused, config: record.config }
    }

    /// What the operations are told.
    #[must_use]
    pub const fn for_run(self, run: RunId, fence_floor: FenceEpoch) -> RunGate {
        let Self { status, paused, config } = self;
        RunGate { run, status, paused, config, fence_floor }
    }

    /// Passes on the gate that some run can have: the rules are the run's.
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

impl Record for Gate {
    const KIND: Kind = Kind::Gate;
}

impl CanonicalBytes for Gate {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.status.write_canonical(sink);
        put_flag(sink, self.paused);
        put_config(sink, &self.config);
    }
}

impl ReadFields for Gate {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (status, paused) = (reader.choice("run status")?, reader.flag("pause")?);
        let gate = Self { status, paused, config: reader.config()? };
        reader.sound(gate.checked())
    }
}
