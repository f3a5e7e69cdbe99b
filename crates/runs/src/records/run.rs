//! A run as two records: [`RunHeadRecord`] and [`ManifestRecord`].

use std::num::NonZeroU64;

use bytes::Bytes;
use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, CursorSemantics, LogicalTime, RunId, ShardId, TenantId,
};
use shardwright_coordination::{InvariantViolation, RunConfig, RunOpLog, RunRecord, RunStatus};
use shardwright_engine::codec::{DecodeError, Field, List, Reader, RecordKind, encode_as};
use shardwright_engine::record;

use super::{RunProtocol, RunStateRecord};

record! { RunProtocol:
    /// A run without its manifest.
    RunHeadRecord: RecordKind::RunHead {
        /// Tenant of the run.
        tenant: TenantId,
        /// Id of the run.
        run: RunId,
        /// Configuration of the run.
        config: RunConfig,
        /// Status of the run.
        status: RunStatus,
        /// Whether the run is paused: no shard is handed out.
        paused: bool,
        /// When the run was created.
        created_at: LogicalTime,
        /// When the run ended, if it has.
        completed_at: Option<LogicalTime>,
        /// Recent operations.
        op_log: RunOpLog,
        /// Whether the run is being deleted, shard by shard. Nothing may be added to it then.
        collecting: bool,
    } lends(RunFields) check(RunHeadRecord::checked)

    /// Root shards of a run: none until they are registered, and then always the same.
    #[derive(Default)]
    ManifestRecord: RecordKind::Manifest {
        /// Ids of the shards, ascending.
        root_shards: Vec<ShardId>,
    } lends(ManifestFields) check(ManifestRecord::checked)
}

impl RunHeadRecord {
    /// Encodes a run from its whole record.
    #[must_use]
    pub fn encode_of(record: &RunRecord, collecting: bool) -> Bytes {
        let RunRecord { tenant, run, config, status, paused, .. } = record;
        let RunRecord { created_at, completed_at, op_log, .. } = record;
        let fields = RunFields {
            tenant,
            run,
            config,
            status,
            paused,
            created_at,
            completed_at,
            op_log,
            collecting: &collecting,
        };
        encode_as(RecordKind::RunHead, &fields)
    }

    /// Joins the run with root shards, which may be those of another run.
    fn with_roots(self, root_shards: Vec<ShardId>) -> RunRecord {
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

    /// Returns the run with the shortest manifest it could have, for callers that do not read the
    /// manifest.
    pub(crate) fn alone(self) -> Result<RunRecord, InvariantViolation> {
        let initializing = self.status == RunStatus::Initializing;
        let record = self.with_roots(if initializing { vec![] } else { vec![ShardId::SINGLE] });
        record.check_invariants()?;
        Ok(record)
    }

    /// Returns the run if it satisfies the invariants of a whole run.
    pub(super) fn checked(self) -> Result<Self, InvariantViolation> {
        let collecting = self.collecting;
        let (run, _) = split_run(self.alone()?, collecting);
        Ok(run)
    }
}

impl ManifestRecord {
    /// Encodes the manifest of a run from the run's whole record.
    #[must_use]
    pub fn encode_of(record: &RunRecord) -> Bytes {
        encode_as(RecordKind::Manifest, &ManifestFields { root_shards: &record.root_shards })
    }

    /// Returns the manifest if a run can have it. The invariants are those of a whole run. The
    /// check uses a cancelled run because that may have any manifest.
    fn checked(self) -> Result<Self, InvariantViolation> {
        let config = RunConfig {
            cursor_semantics: CursorSemantics::Completed,
            lease_duration_ms: NonZeroU64::MIN,
            max_shard_retries: None,
        };
        let cancelled = RunStateRecord { status: RunStatus::Cancelled, paused: false, config };
        let run = cancelled.simplest_run().with_roots(self.root_shards);
        run.check_invariants()?;
        Ok(Self { root_shards: run.root_shards })
    }
}

/// Separates a run into its two records.
#[must_use]
pub fn split_run(record: RunRecord, collecting: bool) -> (RunHeadRecord, ManifestRecord) {
    // No `..`: a new field must be stored too.
    let RunRecord {
        tenant,
        run,
        config,
        status,
        paused,
        created_at,
        completed_at,
        root_shards,
        op_log,
    } = record;
    let run = RunHeadRecord {
        tenant,
        run,
        config,
        status,
        paused,
        created_at,
        completed_at,
        op_log,
        collecting,
    };
    (run, ManifestRecord { root_shards })
}

/// Joins the two records of a run, and checks the run's invariants. The result does not contain
/// `collecting`.
pub fn join_run(
    run: RunHeadRecord,
    manifest: ManifestRecord,
) -> Result<RunRecord, InvariantViolation> {
    let record = run.with_roots(manifest.root_shards);
    record.check_invariants()?;
    Ok(record)
}

impl Field<RunProtocol> for Vec<ShardId> {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_len(self.len());
        self.iter().for_each(|shard| shard.write_canonical(sink));
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let list = List { what: "root shards", max: MAX_INITIAL_SHARDS, item_bytes: 8, reserve: 0 };
        reader.list(list, |reader| <ShardId as Field<RunProtocol>>::get(reader, name))
    }
}
