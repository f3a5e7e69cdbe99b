//! A shard as two records: [`DefinitionRecord`] and [`ProgressRecord`].

use bytes::Bytes;
use shardwright_contracts::limits::MAX_SPAWNED_PER_SHARD;
use shardwright_contracts::{
    CanonicalSink, Cursor, CursorSemantics, FenceEpoch, LogicalTime, OpId, RunId, ShardId,
    ShardKey, ShardSpec, TenantId, WorkerId,
};
use shardwright_coordination::{
    InvariantViolation, LeaseHolder, OpKind, OpLog, OpLogEntry, OpResult, Park, ParkReason,
    ShardHead, ShardRecord, ShardStatus, Spawned,
};
use shardwright_engine::codec::{DecodeError, Field, List, Reader, RecordKind, encode_as};
use shardwright_engine::{fields, record};

use super::RunProtocol;

/// Bytes of a spawned shard: id and fingerprint.
const SPAWNED_BYTES: usize = 8 + 8;
/// Bytes of an entry of an op log: id, kind, result, fingerprint, time.
const OP_LOG_ENTRY_BYTES: usize = 8 + 1 + 1 + 8 + 8;

record! { RunProtocol:
    /// Definition of a shard. Written when the shard is created and when it spawns others.
    DefinitionRecord: RecordKind::Definition {
        /// Tenant of the run.
        tenant: TenantId,
        /// Run and id of the shard.
        key: ShardKey,
        /// Range and metadata.
        spec: ShardSpec,
        /// Shard from which this one was split.
        parent: Option<ShardId>,
        /// When a key counts as processed.
        cursor_semantics: CursorSemantics,
        /// Shards split from this one, oldest first.
        spawned: Vec<Spawned>,
    } lends(DefinitionFields) check(DefinitionRecord::checked)

    /// Progress of a shard. Written by every operation on it.
    ProgressRecord: RecordKind::Progress {
        /// Status of the shard.
        status: ShardStatus,
        /// Reason why the shard is parked, if it is.
        park: Option<Park>,
        /// Fence of the last owner, or 1 before the first.
        fence: FenceEpoch,
        /// Current lease.
        lease: Option<LeaseHolder>,
        /// Position up to which the shard is processed.
        cursor: Cursor,
        /// Recent operations.
        op_log: OpLog,
        /// Number of times the shard was acquired.
        acquire_count: u32,
        /// Number of times the shard was acquired since it last made progress.
        acquires_without_progress: u32,
    } lends(ProgressFields) check(ProgressRecord::checked)
}

impl DefinitionRecord {
    /// Encodes the definition of a shard from the whole shard.
    #[must_use]
    pub fn encode_of(record: &ShardRecord) -> Bytes {
        let ShardHead { tenant, key, parent, cursor_semantics, spawned, .. } = &record.head;
        let spec = &record.spec;
        let fields = DefinitionFields { tenant, key, spec, parent, cursor_semantics, spawned };
        encode_as(RecordKind::Definition, &fields)
    }

    /// Returns the shard as it was created, except for the shards that it spawned.
    fn into_untouched(self) -> (ShardHead, ShardSpec) {
        let Self { tenant, key, spec, parent, cursor_semantics, spawned } = self;
        (ShardHead { spawned, ..ShardHead::new(tenant, key, parent, cursor_semantics) }, spec)
    }

    /// Returns the definition if a shard can have it.
    ///
    /// The invariants are those of a whole shard. An untouched shard can violate only those about
    /// its definition.
    fn checked(self) -> Result<Self, InvariantViolation> {
        let Self { tenant, key, parent, cursor_semantics, .. } = self;
        let (head, spec) = self.into_untouched();
        head.check_invariants()?;
        Ok(Self { tenant, key, spec, parent, cursor_semantics, spawned: head.spawned })
    }
}

impl ProgressRecord {
    /// Encodes the progress of a shard from the whole shard. Every checkpoint writes it.
    #[must_use]
    pub fn encode_of(record: &ShardRecord) -> Bytes {
        let ShardHead { status, park, fence, lease, op_log, .. } = &record.head;
        let ShardHead { acquire_count, acquires_without_progress, .. } = &record.head;
        let cursor = &record.cursor;
        let fields = ProgressFields {
            status,
            park,
            fence,
            lease,
            cursor,
            op_log,
            acquire_count,
            acquires_without_progress,
        };
        encode_as(RecordKind::Progress, &fields)
    }

    /// Moves the progress into the shard that `head` defines.
    fn put_into(self, head: ShardHead) -> (ShardHead, Cursor) {
        let Self {
            status,
            park,
            fence,
            lease,
            cursor,
            op_log,
            acquire_count,
            acquires_without_progress,
        } = self;
        let head = ShardHead {
            status,
            park,
            fence,
            lease,
            op_log,
            acquire_count,
            acquires_without_progress,
            ..head
        };
        (head, cursor)
    }

    /// Returns the progress if a shard can have made it.
    ///
    /// The invariants are those of a whole shard, so the simplest shard that could have made this
    /// progress is checked.
    fn checked(self) -> Result<Self, InvariantViolation> {
        let (tenant, key) =
            (TenantId::from_bytes([0; 32]), ShardKey::new(RunId::from_raw(0), ShardId::SINGLE));
        let mut simplest = ShardHead::new(tenant, key, None, CursorSemantics::Completed);
        if self.status == ShardStatus::Split {
            let child = Spawned { shard: ShardId::SINGLE.into_derived(), payload_hash: 0 };
            simplest.spawned = vec![child];
        }
        let (head, cursor) = self.put_into(simplest);
        head.check_invariants()?;
        let ShardHead { status, park, fence, lease, op_log, .. } = head;
        let ShardHead { acquire_count, acquires_without_progress, .. } = head;
        Ok(Self {
            status,
            park,
            fence,
            lease,
            cursor,
            op_log,
            acquire_count,
            acquires_without_progress,
        })
    }
}

/// Separates a shard into its two records.
#[must_use]
pub fn split_shard(record: ShardRecord) -> (DefinitionRecord, ProgressRecord) {
    let ShardRecord { head, spec, cursor } = record;
    // No `..`: a new field must be stored too.
    let ShardHead {
        tenant,
        key,
        status,
        park,
        fence,
        lease,
        parent,
        spawned,
        cursor_semantics,
        op_log,
        acquire_count,
        acquires_without_progress,
    } = head;
    (
        DefinitionRecord { tenant, key, spec, parent, cursor_semantics, spawned },
        ProgressRecord {
            status,
            park,
            fence,
            lease,
            cursor,
            op_log,
            acquire_count,
            acquires_without_progress,
        },
    )
}

/// Joins the two records of a shard, and checks the shard's invariants.
pub fn join_shard(
    definition: DefinitionRecord,
    progress: ProgressRecord,
) -> Result<ShardRecord, InvariantViolation> {
    let (head, spec) = definition.into_untouched();
    let (head, cursor) = progress.put_into(head);
    let record = ShardRecord { head, spec, cursor };
    record.check_invariants()?;
    Ok(record)
}

fields! { RunProtocol:
    Park { reason: ParkReason, detail: Box<[u8]> }
    LeaseHolder { owner: WorkerId, deadline: LogicalTime }
    Spawned { shard: ShardId, payload_hash: u64 }
    OpLogEntry {
        op: OpId,
        kind: OpKind,
        result: OpResult,
        payload_hash: u64,
        executed_at: LogicalTime,
    }
}

impl Field<RunProtocol> for Vec<Spawned> {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_len(self.len());
        self.iter().for_each(|spawned| spawned.put(sink));
    }

    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let list = List {
            what: "spawned shards",
            max: MAX_SPAWNED_PER_SHARD,
            item_bytes: SPAWNED_BYTES,
            reserve: 0,
        };
        reader.list(list, |reader| Spawned::get(reader, name))
    }
}

impl<const CAPACITY: usize> Field<RunProtocol> for OpLog<CAPACITY> {
    fn put<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        sink.put_len(self.len());
        self.entries().for_each(|entry| entry.put(sink));
    }

    /// Reserves the log's full capacity, which the next operation needs.
    fn get(reader: &mut Reader<'_>, name: &'static str) -> Result<Self, DecodeError> {
        let list = List {
            what: "remembered operations",
            max: CAPACITY,
            item_bytes: OP_LOG_ENTRY_BYTES,
            reserve: CAPACITY,
        };
        reader.list(list, |reader| OpLogEntry::get(reader, name)).map(Self::from_entries)
    }
}
