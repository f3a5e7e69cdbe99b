use bytes::Bytes;
use shardwright_contracts::{CanonicalBytes, CanonicalSink, LogicalTime, RunId, ShardId, TenantId};
use shardwright_coordination::{InvariantViolation, RunConfig, RunOpLog, RunRecord, RunStatus};

use super::error::DecodeError;
use super::fields::{put_config, put_flag, put_op_log, put_optional};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::{Record, encode_as};

/// A run, apart from its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its id.
    pub run: RunId,
    /// How its shards are to be worked on.
    pub config: RunConfig,
    /// Where it is in its life.
    pub status: RunStatus,
    /// Whether nothing new is handed out.
    pub paused: bool,
    /// When it was created.
    pub created_at: LogicalTime,
    /// When it ended, if it has.
    pub completed_at: Option<LogicalTime>,
    /// What was done to it lately.
    pub op_log: RunOpLog,
    /// Whether it is being deleted, shard by shard: nothing may be added to it any more.
    pub collecting: bool,
}

impl Run {
    /// Encodes a run without taking it apart.
    #[must_use]
    pub fn encode_of(record: &RunRecord, collecting: bool) -> Bytes {
        let fields = Fields {
            tenant: &record.tenant,
            run: record.run,
            config: &record.config,
            status: record.status,
            paused: record.paused,
            created_at: record.created_at,
            completed_at: record.completed_at,
            op_log: &record.op_log,
            collecting,
        };
        encode_as(Kind::Run, &fields)
    }

    /// Puts the run together with its root shards, which may be none of its own.
    pub(super) fn with_roots(self, root_shards: Vec<ShardId>) -> RunRecord {
        let Self { tenant, run, config, status, paused, created_at, completed_at, op_log, .. } =
            self;
        RunRecord {
            tenant,
            run,
            config,
            status,
            paused,
            created_at,
            completed_at,
            root_shards,
            op_log,
        }
    }

    /// The run with the shortest manifest that it could have, for whoever does not look at that.
    pub(crate) fn alone(self) -> Result<RunRecord, InvariantViolation> {
        let initializing = self.status == RunStatus::Initializing;
        let record = self.with_roots(if initializing { vec![] } else { vec![ShardId::SINGLE] });
        record.check_invariants()?;
        Ok(record)
    }

    /// Passes on a run that can be. The rules are those of the whole run, and are written there.
    pub(super) fn checked(self) -> Result<Self, InvariantViolation> {
        let collecting = self.collecting;
        let record = self.alone()?;
        let RunRecord { tenant, run, config, status, paused, created_at, .. } = record;
        let RunRecord { completed_at, op_log, .. } = record;
        Ok(Self {
            tenant,
            run,
            config,
            status,
            paused,
            created_at,
            completed_at,
            op_log,
            collecting,
        })
    }
}

impl Record for Run {
    const KIND: Kind = Kind::Run;
}

impl CanonicalBytes for Run {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let fields = Fields {
            tenant: &self.tenant,
            run: self.run,
            config: &self.config,
            status: self.status,
            paused: self.paused,
            created_at: self.created_at,
            completed_at: self.completed_at,
            op_log: &self.op_log,
            collecting: self.collecting,
        };
        fields.write_canonical(sink);
    }
}

impl ReadFields for Run {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let run = Self {
            tenant: reader.tenant()?,
            run: reader.run()?,
            config: reader.config()?,
            status: reader.choice("run status")?,
            paused: reader.flag("pause")?,
            created_at: reader.time()?,
            completed_at: reader.optional(Reader::time)?,
            op_log: reader.op_log()?,
            collecting: reader.flag("collection")?,
        };
        reader.sound(run.checked())
    }
}

/// The same, borrowed.
struct Fields<'a> {
    tenant: &'a TenantId,
    run: RunId,
    config: &'a RunConfig,
    status: RunStatus,
    paused: bool,
    created_at: LogicalTime,
    completed_at: Option<LogicalTime>,
    op_log: &'a RunOpLog,
    collecting: bool,
}

impl CanonicalBytes for Fields<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.tenant.write_canonical(sink);
        self.run.write_canonical(sink);
        put_config(sink, self.config);
        self.status.write_canonical(sink);
        put_flag(sink, self.paused);
        self.created_at.write_canonical(sink);
        put_optional(sink, self.completed_at, |sink, time| time.write_canonical(sink));
        put_op_log(sink, self.op_log);
        put_flag(sink, self.collecting);
    }
}
