use std::error::Error as _;

use proptest::prelude::*;
use rstest::rstest;
use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_METADATA_SIZE};
use shardwright_contracts::{ShardArena, ShardSpecInputError, SlabFull};

use super::*;

mod arithmetic;
mod order;

fn encoded<K: KeyEncoding>(key: &K) -> Vec<u8> {
    let mut buf = KeyBuf::new();
    key.encode_into(&mut buf);
    buf.as_bytes().to_vec()
}

/// A key whose encoding has this many bytes.
struct Sized(usize);

impl KeyEncoding for Sized {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.copy_from_slice(&vec![b'k'; self.0]);
    }
}

#[test]
fn key_buf_replaces_appends_and_clears() {
    let mut buf = KeyBuf::default();
    assert!(buf.is_empty());
    buf.copy_from_slice(b"abc");
    buf.extend_from_slice(b"de");
    assert_eq!((buf.as_bytes(), buf.len(), buf.is_empty()), (&b"abcde"[..], 5, false));
    buf.copy_from_slice(b"x");
    assert_eq!(buf.as_bytes(), b"x");
    assert_eq!(buf.clone().as_bytes(), b"x");
    buf.clear();
    assert_eq!((buf.as_bytes(), buf.len(), buf.is_empty()), (&b""[..], 0, true));
}

#[test]
fn key_buf_refuses_an_overflow() {
    let mut buf = KeyBuf::new();
    buf.copy_from_slice(&[7; MAX_KEY_SIZE]);
    assert_eq!(buf.to_key().map(<[u8]>::len), Ok(MAX_KEY_SIZE));

    for extra in [1, 2, 1_000] {
        let refused = ShardSpecInputError::KeyTooLarge { size: 4_096 + extra, max: 4_096 };
        buf.copy_from_slice(&vec![7; MAX_KEY_SIZE + extra]);
        assert_eq!(buf.to_key(), Err(refused));
        assert_eq!(buf.len(), KeyBuf::CAPACITY);
        assert_eq!(buf.as_bytes(), [7; KeyBuf::CAPACITY]);
    }

    // Appending past the end keeps what fits and counts the rest.
    buf.copy_from_slice(&[1; 4_095]);
    buf.extend_from_slice(&[2, 3, 4]);
    buf.extend_from_slice(&[5; 10]);
    assert_eq!(buf.as_bytes()[4_094..], [1, 2, 3]);
    assert_eq!(buf.to_key(), Err(ShardSpecInputError::KeyTooLarge { size: 4_108, max: 4_096 }));
    buf.copy_from_slice(b"fine again");
    assert_eq!(buf.to_key(), Ok(&b"fine again"[..]));
}

#[test]
fn debug_output_hides_keys() {
    let mut buf = KeyBuf::new();
    buf.copy_from_slice(b"secret");
    let text = format!("{buf:?} {:?}", PathKey::new("secret"));
    assert_eq!(text, "KeyBuf(<6 bytes>) PathKey(<6 bytes>)");
}

#[test]
fn path_key_uses_identity_utf8_encoding() {
    for path in ["a", "/etc/./hosts", "Straße\\x", "a//b "] {
        assert_eq!(encoded(&PathKey::new(path)), path.as_bytes());
        assert_eq!(PathKey::new(path).as_str(), path);
    }
}

#[test]
#[should_panic(expected = "must not be empty")]
fn path_key_new_rejects_empty_path() {
    let _ = PathKey::new("");
}

#[test]
#[should_panic(expected = "4097 bytes exceeds 4096")]
fn path_key_new_rejects_oversized_path() {
    let _ = PathKey::new(&"p".repeat(MAX_KEY_SIZE + 1));
}

#[test]
fn path_key_new_accepts_path_at_max_size() {
    let path = "p".repeat(MAX_KEY_SIZE);
    assert_eq!(encoded(&PathKey::new(&path)).len(), MAX_KEY_SIZE);
}

#[test]
fn path_key_try_new_returns_what_new_panics_with() {
    assert_eq!(PathKey::try_new(""), Err(PathKeyError::Empty));
    assert_eq!(
        PathKey::try_new(&"p".repeat(MAX_KEY_SIZE + 1)),
        Err(PathKeyError::TooLarge { size: 4_097, max: 4_096 })
    );
    assert_eq!(PathKey::try_new("a/b"), Ok(PathKey::new("a/b")));
    assert!(PathKey::try_new(&"p".repeat(MAX_KEY_SIZE)).is_ok());
}

#[test]
fn manifest_row_key_is_fixed_width_and_decodes() {
    let key = ManifestRowKey::new(0x0102, 0xf0);
    let bytes = encoded(&key);
    assert_eq!(bytes, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0xf0]);
    assert_eq!(bytes.len(), ManifestRowKey::ENCODED_LEN);
    assert_eq!(decode_manifest_row_key(&bytes), Some(key));
}

#[test]
fn decode_manifest_row_key_rejects_non_fixed_width_inputs() {
    for len in (0..=40).filter(|len| *len != 16) {
        assert_eq!(decode_manifest_row_key(&vec![0; len]), None, "{len} bytes");
    }
}

#[test]
fn key_encoding_returns_encoded_bytes() {
    assert_eq!(encoded(&Sized(3)), b"kkk");
    assert_eq!(encoded(&"text"), b"text");
    assert_eq!(encoded(&&b"bytes"[..]), b"bytes");
    let mut buf = KeyBuf::new();
    PathKey::new("a/long/path").encode_into(&mut buf);
    PathKey::new("b").encode_into(&mut buf);
    assert_eq!(buf.as_bytes(), b"b", "the earlier key is replaced");
}

#[test]
fn shard_spec_from_keys_makes_the_range_between_them() {
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    let spec = shard_spec_from_keys_ref(
        &PathKey::new("a"),
        &PathKey::new("b"),
        b"meta",
        &mut start,
        &mut end,
    );
    let spec = spec.unwrap();
    assert_eq!((spec.start(), spec.end(), spec.metadata()), (&b"a"[..], &b"b"[..], &b"meta"[..]));
    let swapped =
        shard_spec_from_keys_ref(&PathKey::new("b"), &PathKey::new("a"), b"", &mut start, &mut end);
    let inverted = ShardSpecInputError::InvertedRange { start_len: 1, end_len: 1 };
    assert_eq!(swapped, Err(inverted));
}

#[test]
fn shard_spec_from_keys_surfaces_oversized_encoded_boundary() {
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    let mut check = |from, to| {
        shard_spec_from_keys_ref(&Sized(from), &Sized(to), b"", &mut start, &mut end).map(drop)
    };
    assert_eq!(check(1, MAX_KEY_SIZE), Ok(()));
    for size in [4_097, 4_098, 10_000] {
        let refused = Err(ShardSpecInputError::KeyTooLarge { size, max: 4_096 });
        assert_eq!(check(size, 1), refused);
        assert_eq!(check(1, size), refused);
    }
}

#[test]
fn shard_spec_from_prefix_refuses_what_has_no_range() {
    let mut end = KeyBuf::new();
    let mut check = |prefix: &[u8], metadata: &[u8]| {
        shard_spec_from_prefix_ref(prefix, metadata, &mut end).map(drop).unwrap_err()
    };
    assert_eq!(check(b"", b""), PrefixShardError::EmptyPrefix);
    assert_eq!(check(b"\xff\xff", b""), PrefixShardError::NoSuccessor);
    let too_large = PrefixShardError::PrefixTooLarge { size: 4_097, max: 4_096 };
    assert_eq!(check(&[1; MAX_KEY_SIZE + 1], b""), too_large);
    let size = MAX_METADATA_SIZE + 1;
    let metadata = ShardSpecInputError::MetadataTooLarge { size, max: MAX_METADATA_SIZE };
    assert_eq!(check(b"p", &vec![0; size]), PrefixShardError::InvalidShardSpec(metadata));
    assert!(shard_spec_from_prefix_ref(&[1; MAX_KEY_SIZE], b"", &mut end).is_ok());
}

#[test]
fn into_variants_store_what_the_ref_variants_make() {
    let mut arena = ShardArena::new(3, 100);
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    let (a, b) = (PathKey::new("a"), PathKey::new("b"));
    let keys = shard_spec_from_keys_into(&mut arena, &a, &b, b"m", &mut start, &mut end).unwrap();
    let prefix = shard_spec_from_prefix_into(&mut arena, b"p", b"m", &mut end).unwrap();
    let rows = shard_spec_from_manifest_range_into(&mut arena, 1, 2, 3, b"m", &mut start, &mut end)
        .unwrap();

    let spec = |handle| arena.get(handle).map(|spec| (spec.start(), spec.end(), spec.metadata()));
    assert_eq!(spec(keys), Some((&b"a"[..], &b"b"[..], &b"m"[..])));
    assert_eq!(spec(prefix), Some((&b"p"[..], &b"q"[..], &b"m"[..])));
    let (first, last) = (ManifestRowKey::new(1, 2), ManifestRowKey::new(1, 3));
    assert_eq!(spec(rows), Some((&encoded(&first)[..], &encoded(&last)[..], &b"m"[..])));
}

#[test]
fn into_variants_distinguish_invalid_and_full() {
    let mut arena = ShardArena::new(1, 1);
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    let full = |requested| SlabFull::Bytes { requested, free: 1, capacity: 1 };

    let mut keys = |from, to| {
        let (from, to) = (PathKey::new(from), PathKey::new(to));
        shard_spec_from_keys_into(&mut arena, &from, &to, b"", &mut start, &mut end).unwrap_err()
    };
    let inverted = ShardSpecInputError::InvertedRange { start_len: 1, end_len: 1 };
    assert_eq!(keys("b", "a"), ShardIntoError::Build(inverted));
    assert_eq!(keys("a", "b"), ShardIntoError::SlabFull(full(2)));
    assert_eq!(keys("a", "b").to_string(), "the arena has no room for the shard");
    assert_eq!(keys("b", "a").source().unwrap().to_string(), inverted.to_string());
    assert_eq!(keys("a", "b").source().unwrap().to_string(), full(2).to_string());

    let mut prefix =
        |prefix| shard_spec_from_prefix_into(&mut arena, prefix, b"", &mut end).unwrap_err();
    assert_eq!(prefix(b""), ShardIntoError::Build(PrefixShardError::EmptyPrefix));
    assert_eq!(prefix(b"p"), ShardIntoError::SlabFull(full(2)));

    let mut rows = |from, to| {
        shard_spec_from_manifest_range_into(&mut arena, 1, from, to, b"", &mut start, &mut end)
            .unwrap_err()
    };
    let inverted = ShardSpecInputError::InvertedRange { start_len: 16, end_len: 16 };
    assert_eq!(rows(3, 3), ShardIntoError::Build(inverted));
    assert_eq!(rows(3, 4), ShardIntoError::SlabFull(full(32)));
}

#[rstest]
#[case(PrefixShardError::EmptyPrefix, "must not be empty")]
#[case(PrefixShardError::PrefixTooLarge { size: 5_000, max: 4_096 }, "5000 bytes exceeds 4096")]
#[case(PrefixShardError::NoSuccessor, "no successor")]
fn prefix_shard_error_display_contains(#[case] error: PrefixShardError, #[case] part: &str) {
    assert!(error.to_string().contains(part), "{error}");
    assert!(error.source().is_none());
}

#[test]
fn prefix_shard_error_source_delegates_for_invalid_shard_spec() {
    let cause = ShardSpecInputError::MetadataTooLarge { size: 2, max: 1 };
    let error = PrefixShardError::from(cause);
    assert_eq!(error, PrefixShardError::InvalidShardSpec(cause));
    assert_eq!(error.source().unwrap().to_string(), cause.to_string());
}

proptest! {
    #[test]
    fn shard_spec_from_prefix_produces_valid_half_open_range(
        prefix in prop::collection::vec(any::<u8>(), 1..20),
        suffix in prop::collection::vec(any::<u8>(), 0..20),
        other in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        prop_assume!(prefix.iter().any(|byte| *byte != u8::MAX));
        let mut end = KeyBuf::new();
        let spec = shard_spec_from_prefix_ref(&prefix, b"", &mut end).unwrap();
        prop_assert_eq!(spec.start(), &prefix[..]);
        prop_assert!(spec.start() < spec.end());
        let below = [&prefix[..], &suffix].concat();
        prop_assert!(spec.contains(&below));
        prop_assert_eq!(spec.contains(&other), other.starts_with(&prefix));
    }

    #[test]
    fn shard_spec_from_manifest_range_rejects_inverted_or_degenerate(
        manifest in any::<u64>(), from in any::<u64>(), to in any::<u64>(), near in 0_u64..3,
    ) {
        let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
        for to in [to, from, from.saturating_add(near), from.saturating_sub(near)] {
            let spec =
                shard_spec_from_manifest_range_ref(manifest, from, to, b"", &mut start, &mut end);
            prop_assert_eq!(spec.is_ok(), from < to);
            if let Ok(spec) = spec {
                let row = |key| decode_manifest_row_key(key).unwrap();
                prop_assert_eq!(row(spec.start()), ManifestRowKey::new(manifest, from));
                prop_assert_eq!(row(spec.end()), ManifestRowKey::new(manifest, to));
            }
        }
    }
}

#[test]
fn encoding_and_arithmetic_do_not_allocate() {
    let (mut one, mut two) = (KeyBuf::new(), KeyBuf::new());
    let long = vec![3; MAX_KEY_SIZE];
    let counted = allocation_counter::measure(|| {
        PathKey::new("a/b").encode_into(&mut one);
        ManifestRowKey::new(1, 2).encode_into(&mut one);
        (7_u64, -7_i64, 0.5_f64, "text").encode_into(&mut one);
        CompositeKey(&[b"a", b"\0"]).encode_into(&mut one);
        assert!(decode_composite_part(b"a\0\x01", &mut one).is_ok());
        for key in [&b"key"[..], &long] {
            assert!(prefix_successor(key, &mut one).is_some());
            assert!(key_successor(key, &mut one).is_some());
            assert!(byte_midpoint(key, b"\xff", &mut one).is_some());
        }
        let (a, b) = (PathKey::new("a"), PathKey::new("b"));
        assert!(shard_spec_from_keys_ref(&a, &b, b"", &mut one, &mut two).is_ok());
        assert!(shard_spec_from_keys_ref(&b, &a, b"", &mut one, &mut two).is_err());
        assert!(shard_spec_from_prefix_ref(b"p", b"", &mut one).is_ok());
        assert!(shard_spec_from_manifest_range_ref(1, 2, 3, b"", &mut one, &mut two).is_ok());
    });
    assert_eq!(counted.count_total, 0);
}
