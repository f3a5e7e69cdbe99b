use std::num::NonZeroU64;

use bytes::Bytes;
use shardwright_contracts::limits::MAX_INITIAL_SHARDS;
use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, CursorSemantics, LogicalTime, RunId, ShardId, TenantId,
};
use shardwright_coordination::{InvariantViolation, RunConfig, RunOpLog, RunRecord, RunStatus};

use super::error::DecodeError;
use super::kind::Kind;
use super::reader::{List, ReadFields, Reader};
use super::record::{Record, encode_as};

/// The root shards of a run: none before they are registered, and never others afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// In ascending order.
    pub root_shards: Vec<ShardId>,
}

impl Manifest {
    /// Encodes the manifest of a run without taking the run apart.
    #[must_use]
    pub fn encode_of(record: &RunRecord) -> Bytes {
        encode_as(Kind::Manifest, &Fields(&record.root_shards))
    }

    /// Passes on a manifest that some run can have. The rules are written with the run's: a run
    /// that was called off may have any manifest, so it is the one to ask.
    fn checked(self) -> Result<Self, InvariantViolation> {
        let config = RunConfig {
            cursor_semantics: CursorSemantics::Completed,
            lease_duration_ms: NonZeroU64::MIN,
            max_shard_retries: None,
        };
        let run = RunRecord {
            tenant: TenantId::from_bytes([0; 32]),
            run: RunId::from_raw(0),
            config,
            status: RunStatus::Cancelled,
            paused: false,
            created_at: LogicalTime::ZERO,
            completed_at: Some(LogicalTime::ZERO),
            root_shards: self.root_shards,
            op_log: RunOpLog::new(),
        };
        run.check_invariants()?;
        Ok(Self { root_shards: run.root_shards })
    }
}

impl Record for Manifest {
    const KIND: Kind = Kind::Manifest;
}

impl CanonicalBytes for Manifest {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        Fields(&self.root_shards).write_canonical(sink);
    }
}

impl ReadFields for Manifest {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let list = List { what: "root shards", max: MAX_INITIAL_SHARDS, item_bytes: 8, reserve: 0 };
        let manifest = Self { root_shards: reader.list(list, Reader::shard)? };
        reader.sound(manifest.checked())
    }
}

/// The same, borrowed.
struct Fields<'a>(&'a [ShardId]);

impl CanonicalBytes for Fields<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_len(self.0.len());
        for shard in self.0 {
            shard.write_canonical(sink);
        }
    }
}
