use std::error::Error as _;

use proptest::prelude::*;
use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_METADATA_SIZE};
use shardwright_contracts::{ShardSpec, ShardSpecInputError, ShardSpecRef};

use super::*;
use crate::key_encoding::{KeyBuf, KeyEncoding, ManifestRowKey};

mod metadata;
mod propagate;
mod shard;
mod split;
mod wire;

fn prefix(prefix: &[u8]) -> ShardHint<'_> {
    ShardHint::Prefix { prefix }
}

fn rows(manifest_id: u64, start_row: u64, end_row: u64) -> ShardHint<'static> {
    ShardHint::Manifest { manifest_id, start_row, end_row }
}

fn row_key(manifest_id: u64, row: u64) -> Vec<u8> {
    let mut buf = KeyBuf::new();
    ManifestRowKey::new(manifest_id, row).encode_into(&mut buf);
    buf.as_bytes().to_vec()
}

/// What a hint of any kind borrows from or consists of.
#[derive(Clone, Debug)]
enum OwnedHint {
    Range,
    Prefix(Vec<u8>),
    Rows(u64, u64, u64),
}

impl OwnedHint {
    fn lend(&self) -> ShardHint<'_> {
        match self {
            Self::Range => ShardHint::Range,
            Self::Prefix(bytes) => prefix(bytes),
            Self::Rows(manifest_id, start_row, end_row) => rows(*manifest_id, *start_row, *end_row),
        }
    }
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..48)
}

fn any_hint() -> impl Strategy<Value = OwnedHint> {
    let row_ranges = (any::<u64>(), any::<[u64; 2]>())
        .prop_filter("a range of no rows is no hint", |(_, [a, b])| a != b)
        .prop_map(|(id, [a, b])| OwnedHint::Rows(id, a.min(b), a.max(b)));
    prop_oneof![Just(OwnedHint::Range), any_bytes().prop_map(OwnedHint::Prefix), row_ranges,]
}

fn no_heap<T>(call: impl FnOnce() -> T) -> T {
    let mut returned = None;
    let counted = allocation_counter::measure(|| returned = Some(call()));
    assert_eq!(counted.count_total, 0, "the call allocated");
    returned.unwrap()
}

#[test]
fn encoding_hints_does_not_allocate() {
    let mut buf = MetadataBuf::new();
    let long = [7; MAX_METADATA_SIZE];
    for hint in [ShardHint::Range, prefix(b"folder/"), rows(1, 2, 3)] {
        let bytes = no_heap(|| hint.encode_into(&mut buf)).unwrap();
        assert_eq!(no_heap(|| ShardHint::decode(bytes)).unwrap().0, hint);

        let metadata = ShardMetadata::new(hint, b"extra");
        let bytes = no_heap(|| metadata.encode_into(&mut buf)).unwrap();
        assert_eq!(no_heap(|| ShardMetadata::decode(bytes)), Ok(metadata));
        let spec = ShardSpecRef::new(b"a", b"b", bytes);
        assert_eq!(no_heap(|| decode_metadata(spec)), Ok(metadata));
        assert_eq!(no_heap(|| decode_hint(spec)), Ok(hint));
        assert_eq!(no_heap(|| decode_connector_extra(spec)), Ok(&b"extra"[..]));
    }
    for hint in [prefix(&long), rows(1, 3, 2)] {
        no_heap(|| hint.encode_into(&mut buf).map(drop)).unwrap_err();
    }
    no_heap(|| ShardHint::decode(b"\x02short")).unwrap_err();
    no_heap(|| ShardMetadata::decode(b"\0\0\0\x01\xff")).unwrap_err();
    let too_long = ShardMetadata::new(ShardHint::Range, &long);
    no_heap(|| too_long.encode_into(&mut buf).map(drop)).unwrap_err();
}

#[test]
fn making_shards_does_not_allocate() {
    let mut scratch = ShardSpecScratch::new();
    no_heap(|| range_shard_ref(b"a", b"b", b"x", &mut scratch).map(drop)).unwrap();
    no_heap(|| range_shard_ref(b"b", b"a", b"x", &mut scratch).map(drop)).unwrap_err();
    no_heap(|| prefix_shard_ref(b"a", b"x", &mut scratch).map(drop)).unwrap();
    no_heap(|| prefix_shard_ref(b"\xff", b"x", &mut scratch).map(drop)).unwrap_err();
    no_heap(|| manifest_shard_ref(1, 2, 3, b"x", &mut scratch).map(drop)).unwrap();
    no_heap(|| manifest_shard_ref(1, 3, 2, b"x", &mut scratch).map(drop)).unwrap_err();

    let (start, end) = (row_key(1, 5), row_key(1, 6));
    for (hint, start, end) in [
        (ShardHint::Range, &b"a"[..], &b"b"[..]),
        (prefix(b"a"), b"a1", b"b"),
        (rows(1, 0, 9), &start, &end),
    ] {
        no_heap(|| propagate_hint_on_split(hint, start, end)).unwrap();
    }
    for hint in [prefix(b"b"), rows(1, 0, 9)] {
        no_heap(|| propagate_hint_on_split(hint, b"a", b"b")).unwrap_err();
    }
}
