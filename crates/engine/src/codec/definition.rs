use bytes::Bytes;
use shardwright_contracts::limits::MAX_SPAWNED_PER_SHARD;
use shardwright_contracts::{
    CanonicalBytes, CanonicalSink, CursorSemantics, ShardId, ShardKey, ShardSpec, TenantId,
};
use shardwright_coordination::{ShardHead, ShardRecord, Spawned};

use super::error::DecodeError;
use super::fields::put_optional;
use super::kind::Kind;
use super::reader::{List, ReadFields, Reader};
use super::record::{Record, encode_as};

/// Bytes of one spawned shard: id and fingerprint.
const SPAWNED_BYTES: usize = 8 + 8;

/// What a shard is. Written when the shard is made and when it spawns others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its run and its id.
    pub key: ShardKey,
    /// Range and metadata.
    pub spec: ShardSpec,
    /// Which shard it was split from.
    pub parent: Option<ShardId>,
    /// When a key of it counts as processed.
    pub cursor_semantics: CursorSemantics,
    /// Which shards were split from it, in the order in which they were.
    pub spawned: Vec<Spawned>,
}

impl Definition {
    /// Encodes the definition of a shard without taking the shard apart.
    #[must_use]
    pub fn encode_of(record: &ShardRecord) -> Bytes {
        let ShardHead { tenant, key, parent, cursor_semantics, spawned, .. } = &record.head;
        let fields = Fields {
            tenant,
            key,
            spec: &record.spec,
            parent: *parent,
            cursor_semantics: *cursor_semantics,
            spawned,
        };
        encode_as(Kind::Definition, &fields)
    }

    /// The shard as it was before anybody touched it, except for what it spawned.
    pub(super) fn into_untouched(self) -> (ShardHead, ShardSpec) {
        let Self { tenant, key, spec, parent, cursor_semantics, spawned } = self;
        (ShardHead { spawned, ..ShardHead::new(tenant, key, parent, cursor_semantics) }, spec)
    }
}

impl Record for Definition {
    const KIND: Kind = Kind::Definition;
}

impl CanonicalBytes for Definition {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        let Self { tenant, key, spec, parent, cursor_semantics, spawned } = self;
        let (parent, cursor_semantics) = (*parent, *cursor_semantics);
        Fields { tenant, key, spec, parent, cursor_semantics, spawned }.write_canonical(sink);
    }
}

impl ReadFields for Definition {
    fn read_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (tenant, key, spec) = (reader.tenant()?, reader.shard_key()?, reader.spec()?);
        let parent = reader.optional(Reader::shard)?;
        let cursor_semantics = reader.choice("cursor semantics")?;
        let list = List {
            what: "spawned shards",
            max: MAX_SPAWNED_PER_SHARD,
            item_bytes: SPAWNED_BYTES,
            reserve: 0,
        };
        let spawned = reader.list(list, |reader| {
            Ok(Spawned { shard: reader.shard()?, payload_hash: reader.u64()? })
        })?;
        let definition = Self { tenant, key, spec, parent, cursor_semantics, spawned };
        // The rules are those of the whole shard, and are written there: with nothing done to it,
        // only those about its definition can be broken.
        let (head, spec) = definition.into_untouched();
        reader.sound(head.check_invariants())?;
        Ok(Self { tenant, key, spec, parent, cursor_semantics, spawned: head.spawned })
    }
}

/// The same, borrowed.
struct Fields<'a> {
    tenant: &'a TenantId,
    key: &'a ShardKey,
    spec: &'a ShardSpec,
    parent: Option<ShardId>,
    cursor_semantics: CursorSemantics,
    spawned: &'a [Spawned],
}

impl CanonicalBytes for Fields<'_> {
    fn write_canonical<S: CanonicalSink + ?Sized>(&self, sink: &mut S) {
        self.tenant.write_canonical(sink);
        self.key.write_canonical(sink);
        self.spec.write_canonical(sink);
        put_optional(sink, self.parent, |sink, parent| parent.write_canonical(sink));
        self.cursor_semantics.write_canonical(sink);
        sink.put_len(self.spawned.len());
        for Spawned { shard, payload_hash } in self.spawned {
            shard.write_canonical(sink);
            sink.put_u64(*payload_hash);
        }
    }
}
