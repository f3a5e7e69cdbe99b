use bytes::Bytes;
use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, Cursor, CursorSemantics, CursorUpdate, FenceEpoch, RunId,
    ShardId, ShardKey, TenantId,
};
use shardwright_coordination::{
    InvariantViolation, LeaseHolder, OpLog, Park, ShardHead, ShardRecord, ShardStatus, Spawned,
};

use super::error::DecodeError;
use super::fields::{put_lease, put_op_log, put_optional};
use super::kind::Kind;
use super::reader::{ReadFields, Reader};
use super::record::{Record, encode_as};

/// Where a shard stands. Written by every operation on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where it is in its life.
    pub status: ShardStatus,
    /// Why it is parked, if it is.
    pub park: Option<Park>,
    /// The fence of its last owner, or 1 if it never had one.
    pub fence: FenceEpoch,
    /// Who holds it.
    pub lease: Option<LeaseHolder>,
    /// How far it is processed.
    pub cursor: Cursor,
    /// What was done to it lately.
    pub op_log: OpLog,
    /// How often it was acquired.
    pub acquire_count: u32,
    /// How often it was acquired since it last made progress.
    pub fruitless_acquires: u32,
}

impl Progress {
    /// Encodes the progress of a shard without taking the shard apart: this is what every
    /// checkpoint writes.
    #[must_use]
    pub fn encode_of(record: &ShardRecord) -> Bytes {
        let ShardHead { status, park, fence, lease, op_log, .. } = &record.head;
        let fields = Fields {
            status: *status,
            park: park.as_ref(),
            fence: *fence,
            lease: *lease,
            cursor: record.cursor.as_update(),
            op_log,
            acquire_count: record.head.acquire_count,
            fruitless_acquires: record.head.fruitless_acquires,
        };
        encode_as(Kind::Progress, &fields)
    }

    /// Puts the progress into the shard whose definition is in `head`.
    pub(super) fn put_into(self, head: ShardHead) -> (ShardHead, Cursor) {
        let Self { status, park, fence, lease, cursor, op_log, acquire_count, fruitless_acquires } =
            self;
        let head = ShardHead {
            status,
            park,
            fence,
            lease,
            op_log,
            acquire_count,
            fruitless_acquires,
            ..head
        };
        (head, cursor)
    }

    /// Takes the progress out of a shard.
    pub(super) fn take_from(head: ShardHead, cursor: Cursor) -> Self {
        let ShardHead { status, park, fence, lease, op_log, .. } = head;
        let ShardHead { acquire_count, fruitless_acquires, .. } = head;
        Self { status, park, fence, lease, cursor, op_log, acquire_count, fruitless_acquires }
    }

    /// Passes on progress that some shard can have made.
    ///
    /// The rules are those of the whole shard, and are written there; so the progress is lent to
    /// the simplest shard that could have made it.
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
        Ok(Self::take_from(head, cursor))
    }
}

impl Record for Progress {
    const KIND: Kind = Kind::Progress;
}

impl CanonicalBytes for Progress {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let fields = Fields {
            status: self.status,
            park: self.park.as_ref(),
            fence: self.fence,
            lease: self.lease,
            cursor: self.cursor.as_update(),
            op_log: &self.op_log,
            acquire_count: self.acquire_count,
            fruitless_acquires: self.fruitless_acquires,
        };
        fields.write_canonical(sink);
    }
}

impl ReadFields for Progress {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let progress = Self {
            status: reader.choice("shard status")?,
            park: reader.optional(|reader| {
                let (reason, detail) = (reader.choice("park reason")?, reader.bytes()?);
                Ok(Park { reason, detail: detail.into() })
            })?,
            fence: reader.fence()?,
            lease: reader.optional(Reader::lease)?,
            cursor: reader.cursor()?,
            op_log: reader.op_log()?,
            acquire_count: reader.u32()?,
            fruitless_acquires: reader.u32()?,
        };
        reader.sound(progress.checked())
    }
}

/// The same, borrowed.
struct Fields<'a> {
    status: ShardStatus,
    park: Option<&'a Park>,
    fence: FenceEpoch,
    lease: Option<LeaseHolder>,
    cursor: CursorUpdate<'a>,
    op_log: &'a OpLog,
    acquire_count: u32,
    fruitless_acquires: u32,
}

impl CanonicalBytes for Fields<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.status.write_canonical(sink);
        put_optional(sink, self.park, |sink, Park { reason, detail }| {
            reason.write_canonical(sink);
            sink.put_bytes(detail);
        });
        self.fence.write_canonical(sink);
        put_optional(sink, self.lease, put_lease);
        self.cursor.write_canonical(sink);
        put_op_log(sink, self.op_log);
        sink.put_u32(self.acquire_count);
        sink.put_u32(self.fruitless_acquires);
    }
}
