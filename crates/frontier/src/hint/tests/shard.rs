use shardwright_contracts::{ShardArena, SlabFull};

use super::*;
use crate::key_encoding::{PrefixShardError, ShardIntoError};

/// Checks bounds, hint and the connector's bytes of a spec.
fn assert_spec(
    spec: ShardSpecRef<'_>,
    [start, end]: [&[u8]; 2],
    hint: ShardHint<'_>,
    connector_extra: &[u8],
) {
    assert_eq!((spec.start(), spec.end()), (start, end));
    assert_eq!(decode_metadata(spec), Ok(ShardMetadata::new(hint, connector_extra)));
    assert_eq!(decode_hint(spec), Ok(hint));
    assert_eq!(decode_connector_extra(spec), Ok(connector_extra));
}

#[test]
fn range_shard_roundtrip_with_decode_helpers() {
    let (mut scratch, mut arena) = (ShardSpecScratch::new(), ShardArena::new(3, 100));
    for (bounds, extra) in
        [([&b"a"[..], &b"b"[..]], &b"extra"[..]), ([b"a", b"a\0"], b""), ([b"", b""], b"all keys")]
    {
        let spec = range_shard_ref(bounds[0], bounds[1], extra, &mut scratch).unwrap();
        assert_spec(spec, bounds, ShardHint::Range, extra);
        let stored = range_shard_into(&mut arena, bounds[0], bounds[1], extra, &mut scratch);
        assert_spec(arena.get(stored.unwrap()).unwrap(), bounds, ShardHint::Range, extra);
    }
}

#[test]
fn prefix_shard_roundtrip_with_decode_helpers() {
    let (mut scratch, mut arena) = (ShardSpecScratch::new(), ShardArena::new(3, 100));
    for (bytes, end, extra) in [
        (&b"folder/"[..], &b"folder0"[..], &b"extra"[..]),
        (b"a\xff", b"b", b""),
        (b"\0", b"\x01", b"x"),
    ] {
        let spec = prefix_shard_ref(bytes, extra, &mut scratch).unwrap();
        assert_spec(spec, [bytes, end], prefix(bytes), extra);
        let stored = prefix_shard_into(&mut arena, bytes, extra, &mut scratch).unwrap();
        assert_spec(arena.get(stored).unwrap(), [bytes, end], prefix(bytes), extra);
    }
}

#[test]
fn manifest_shard_roundtrip_with_decode_helpers() {
    let (mut scratch, mut arena) = (ShardSpecScratch::new(), ShardArena::new(3, 300));
    for (id, first, last, extra) in
        [(7, 10, 20, &b"extra"[..]), (0, 0, 1, b""), (u64::MAX, u64::MAX - 1, u64::MAX, b"x")]
    {
        let (start, end) = (row_key(id, first), row_key(id, last));
        let spec = manifest_shard_ref(id, first, last, extra, &mut scratch).unwrap();
        assert_spec(spec, [&start, &end], rows(id, first, last), extra);
        let stored = manifest_shard_into(&mut arena, id, first, last, extra, &mut scratch);
        let spec = arena.get(stored.unwrap()).unwrap();
        assert_spec(spec, [&start, &end], rows(id, first, last), extra);
    }
}

#[test]
fn scratch_is_cleared_between_shards() {
    let mut scratch = ShardSpecScratch::new();
    manifest_shard_ref(1, 2, 3, b"long enough to show", &mut scratch).unwrap();
    prefix_shard_ref(b"a longer prefix", b"extra", &mut scratch).unwrap();
    let spec = prefix_shard_ref(b"p", b"", &mut scratch).unwrap();
    assert_eq!(spec, ShardSpecRef::new(b"p", b"q", b"\0\0\0\x06\x01\0\0\0\x01p"));
}

#[test]
fn debug_output_of_a_scratch_hides_bytes() {
    let mut scratch = ShardSpecScratch::default();
    prefix_shard_ref(b"secret", b"token", &mut scratch).unwrap();
    assert_eq!(
        format!("{scratch:?}"),
        "ShardSpecScratch { start: KeyBuf(<0 bytes>), end: KeyBuf(<6 bytes>), \
         metadata: MetadataBuf(<20 bytes>) }"
    );
}

#[test]
fn prefix_shard_rejects_oversized_prefix_with_prefix_too_large() {
    let (long, mut scratch) = ([1; MAX_KEY_SIZE + 1], ShardSpecScratch::new());
    let error = PrefixShardError::PrefixTooLarge { size: 4_097, max: 4_096 };
    assert_eq!(prefix_shard_ref(&long, b"", &mut scratch), Err(error));
    let spec = prefix_shard_ref(&long[1..], b"", &mut scratch).unwrap();
    assert_eq!((spec.start(), spec.end().len()), (&long[1..], MAX_KEY_SIZE));
}

#[test]
fn prefix_shard_rejects_all_ff_prefix() {
    let mut scratch = ShardSpecScratch::new();
    for prefix in [&b"\xff"[..], &[0xff; MAX_KEY_SIZE]] {
        let refused = prefix_shard_ref(prefix, b"", &mut scratch);
        assert_eq!(refused, Err(PrefixShardError::NoSuccessor));
    }
}

#[test]
fn prefix_shard_rejects_empty_prefix() {
    let refused = Err(PrefixShardError::EmptyPrefix);
    assert_eq!(prefix_shard_ref(b"", b"", &mut ShardSpecScratch::new()), refused);
}

#[test]
fn prefix_shard_rejects_oversized_metadata() {
    let (extra, mut scratch) = ([7; MAX_METADATA_SIZE], ShardSpecScratch::new());
    let error = ShardSpecInputError::MetadataTooLarge { size: 16_385, max: 16_384 };
    let refused = prefix_shard_ref(b"abc", &extra[..16_373], &mut scratch);
    assert_eq!(refused, Err(error.into()));
    let largest = prefix_shard_ref(b"abc", &extra[..16_372], &mut scratch).unwrap();
    assert_eq!(largest.metadata().len(), MAX_METADATA_SIZE);
}

proptest! {
    #[test]
    fn prefix_shard_contains_all_keys_with_prefix(
        stem in any_bytes(),
        last in 0..u8::MAX,
        ffs in 0..3_usize,
        suffix in any_bytes(),
        other in any_bytes(),
    ) {
        let prefix = [&stem[..], &[last], &vec![0xff; ffs]].concat();
        let mut scratch = ShardSpecScratch::new();
        let spec = prefix_shard_ref(&prefix, b"", &mut scratch).unwrap();
        prop_assert!(spec.contains(&prefix));
        prop_assert!(spec.contains(&[&prefix[..], &suffix].concat()));
        // The neighbours of the prefix, and other keys that do not start with it.
        prop_assert!(!spec.contains(&prefix[..prefix.len() - 1]));
        prop_assert!(!spec.contains(&[&stem[..], &[last + 1], &suffix].concat()));
        prop_assert_eq!(spec.contains(&other), other.starts_with(&prefix));
    }
}

#[test]
fn range_shard_rejects_oversized_metadata() {
    let (extra, mut scratch) = ([7; MAX_METADATA_SIZE], ShardSpecScratch::new());
    let error = ShardSpecInputError::MetadataTooLarge { size: 16_385, max: 16_384 };
    let refused = range_shard_ref(b"a", b"b", &extra[..16_380], &mut scratch);
    assert_eq!(refused, Err(error));
    let largest = range_shard_ref(b"a", b"b", &extra[..16_379], &mut scratch).unwrap();
    assert_eq!(largest.metadata().len(), MAX_METADATA_SIZE);
}

#[test]
fn range_shard_rejects_bounds_that_make_no_range() {
    let (long, mut scratch) = ([1; MAX_KEY_SIZE + 1], ShardSpecScratch::new());
    let mut check = |start, end| range_shard_ref(start, end, b"", &mut scratch).map(drop);
    for (start, end) in [(&b"b"[..], &b"a"[..]), (b"ab", b"ab"), (b"ab", b"a")] {
        let (start_len, end_len) = (start.len(), end.len());
        let inverted = ShardSpecInputError::InvertedRange { start_len, end_len };
        assert_eq!(check(start, end), Err(inverted));
    }
    let too_large = Err(ShardSpecInputError::KeyTooLarge { size: 4_097, max: 4_096 });
    assert_eq!(check(&long, b""), too_large);
    assert_eq!(check(b"", &long), too_large);
    assert_eq!(check(b"", &long[1..]), Ok(()));
}

#[test]
fn manifest_shard_rejects_inverted_rows() {
    let mut scratch = ShardSpecScratch::new();
    for (first, last) in [(6, 5), (5, 5), (u64::MAX, 0)] {
        let error = ShardSpecInputError::InvertedRange { start_len: 16, end_len: 16 };
        assert_eq!(manifest_shard_ref(1, first, last, b"", &mut scratch), Err(error));
    }
}

#[test]
fn manifest_shard_rejects_oversized_metadata() {
    let (extra, mut scratch) = ([7; MAX_METADATA_SIZE], ShardSpecScratch::new());
    let error = ShardSpecInputError::MetadataTooLarge { size: 16_385, max: 16_384 };
    assert_eq!(manifest_shard_ref(1, 2, 3, &extra[..16_356], &mut scratch), Err(error));
    let largest = manifest_shard_ref(1, 2, 3, &extra[..16_355], &mut scratch).unwrap();
    assert_eq!(largest.metadata().len(), MAX_METADATA_SIZE);
}

#[test]
fn hinted_into_variants_distinguish_invalid_and_full() {
    let (mut scratch, mut arena) = (ShardSpecScratch::new(), ShardArena::new(0, 100));
    let full = SlabFull::Handles { max: 0 };
    let range = range_shard_into(&mut arena, b"a", b"b", b"", &mut scratch);
    assert_eq!(range, Err(ShardIntoError::SlabFull(full)));
    let prefix = prefix_shard_into(&mut arena, b"a", b"", &mut scratch);
    assert_eq!(prefix, Err(ShardIntoError::SlabFull(full)));
    let rows = manifest_shard_into(&mut arena, 1, 2, 3, b"", &mut scratch);
    assert_eq!(rows, Err(ShardIntoError::SlabFull(full)));

    let inverted = |len| ShardSpecInputError::InvertedRange { start_len: len, end_len: len };
    let range = range_shard_into(&mut arena, b"b", b"a", b"", &mut scratch);
    assert_eq!(range, Err(ShardIntoError::Build(inverted(1))));
    let prefix = prefix_shard_into(&mut arena, b"\xff", b"", &mut scratch);
    assert_eq!(prefix, Err(ShardIntoError::Build(PrefixShardError::NoSuccessor)));
    let rows = manifest_shard_into(&mut arena, 1, 3, 2, b"", &mut scratch);
    assert_eq!(rows, Err(ShardIntoError::Build(inverted(16))));
    assert!(arena.is_empty());
}
