use super::*;
use crate::hint::wire::prefix_hint_len;

fn encoded(hint: ShardHint<'_>) -> Vec<u8> {
    let mut buf = MetadataBuf::new();
    let bytes = hint.encode_into(&mut buf).unwrap().to_vec();
    assert_eq!(buf.as_bytes(), bytes);
    assert_eq!(hint.encoded_len(), Ok(bytes.len()));
    bytes
}

fn assert_roundtrip(hint: ShardHint<'_>) {
    let bytes = encoded(hint);
    assert_eq!(ShardHint::decode(&bytes), Ok((hint, bytes.len())));
}

/// Checks that a hint is refused and that the buffer is unchanged.
fn assert_encode_error(hint: ShardHint<'_>, error: ShardEncodeError) {
    let mut buf = MetadataBuf::new();
    rows(1, 2, 3).encode_into(&mut buf).unwrap();
    assert_eq!(hint.encoded_len(), Err(error));
    assert_eq!(hint.encode_into(&mut buf), Err(error));
    assert_eq!(buf.as_bytes(), encoded(rows(1, 2, 3)));
}

fn manifest_bytes(fields: [u64; 3]) -> Vec<u8> {
    [vec![2], fields.map(u64::to_be_bytes).concat()].concat()
}

#[test]
fn golden_hint_bytes() {
    assert_eq!(encoded(ShardHint::Range), [0]);
    assert_eq!(encoded(prefix(b"")), [1, 0, 0, 0, 0]);
    assert_eq!(encoded(prefix(b"ab\xff")), [1, 0, 0, 0, 3, b'a', b'b', 0xff]);
    assert_eq!(encoded(prefix(&[9; 0x0102]))[..6], [1, 0, 0, 1, 2, 9]);
    assert_eq!(
        encoded(rows(0x0102_0304_0506_0708, 0x1112_1314_1516_1718, u64::MAX)),
        *b"\x02\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\
           \xff\xff\xff\xff\xff\xff\xff\xff"
    );
}

#[test]
fn shard_hint_range_roundtrip() {
    assert_roundtrip(ShardHint::Range);
}

#[test]
fn shard_hint_prefix_roundtrip() {
    for bytes in [&b""[..], b"folder/", b"\0", b"\xff\xff", &[1; MAX_KEY_SIZE]] {
        assert_roundtrip(prefix(bytes));
    }
}

#[test]
fn shard_hint_manifest_roundtrip() {
    for hint in [rows(0, 0, 1), rows(7, 10, 20), rows(u64::MAX, u64::MAX - 1, u64::MAX)] {
        assert_roundtrip(hint);
    }
}

proptest! {
    #[test]
    fn shard_hint_proptest_roundtrip(hint in any_hint(), tail in any_bytes()) {
        let bytes = encoded(hint.lend());
        prop_assert_eq!(ShardHint::decode(&bytes), Ok((hint.lend(), bytes.len())));
        let followed = [&bytes[..], &tail].concat();
        prop_assert_eq!(ShardHint::decode(&followed), Ok((hint.lend(), bytes.len())));
        for cut in 0..bytes.len() {
            prop_assert!(ShardHint::decode(&bytes[..cut]).is_err(), "cut to {cut} bytes");
        }
    }

    #[test]
    fn decoded_hints_encode_to_the_same_bytes(
        tag in 0..4_u8,
        length in prop_oneof![(0..9_u32).prop_map(u32::to_be_bytes), any::<[u8; 4]>()],
        rest in any_bytes(),
    ) {
        let bytes = [&[tag][..], &length, &rest].concat();
        if let Ok((hint, consumed)) = ShardHint::decode(&bytes) {
            prop_assert_eq!(encoded(hint), &bytes[..consumed]);
        }
    }
}

#[test]
fn shard_hint_decode_rejects_empty_data() {
    assert_eq!(ShardHint::decode(b""), Err(ShardHintDecodeError::EmptyData));
}

#[test]
fn shard_hint_decode_rejects_unknown_tag() {
    for tag in 3..=u8::MAX {
        let unknown = Err(ShardHintDecodeError::UnknownTag(tag));
        assert_eq!(ShardHint::decode(&[tag]), unknown);
        assert_eq!(ShardHint::decode(&[tag; 40]), unknown);
    }
}

#[test]
fn shard_hint_decode_rejects_truncated_prefix_header() {
    for actual in 1..5 {
        let error = ShardHintDecodeError::TruncatedPrefix { expected_min: 5, actual };
        assert_eq!(ShardHint::decode(&encoded(prefix(b"abc"))[..actual]), Err(error));
    }
}

#[test]
fn shard_hint_decode_rejects_truncated_prefix_payload() {
    for actual in 5..8 {
        let error = ShardHintDecodeError::TruncatedPrefix { expected_min: 8, actual };
        assert_eq!(ShardHint::decode(&encoded(prefix(b"abc"))[..actual]), Err(error));
    }
    let expected_min = u32::MAX as usize + 5;
    let error = ShardHintDecodeError::TruncatedPrefix { expected_min, actual: 6 };
    assert_eq!(ShardHint::decode(b"\x01\xff\xff\xff\xffa"), Err(error));
}

#[test]
fn shard_hint_decode_rejects_truncated_manifest() {
    for actual in 1..25 {
        let error = ShardHintDecodeError::TruncatedManifest { expected_min: 25, actual };
        assert_eq!(ShardHint::decode(&encoded(rows(1, 2, 3))[..actual]), Err(error));
    }
}

#[test]
fn shard_hint_decode_rejects_inverted_manifest_rows() {
    let mut bytes = encoded(rows(1, 5, 6));
    bytes[9..].rotate_left(8);
    let error = ShardHintDecodeError::InvertedManifestRows { start_row: 6, end_row: 5 };
    assert_eq!(ShardHint::decode(&bytes), Err(error));
}

#[test]
fn shard_hint_decode_rejects_equal_manifest_rows() {
    for row in [0, 5, u64::MAX] {
        let error = ShardHintDecodeError::InvertedManifestRows { start_row: row, end_row: row };
        assert_eq!(ShardHint::decode(&manifest_bytes([1, row, row])), Err(error));
    }
}

#[test]
fn shard_hint_decode_rejects_raw_inverted_manifest() {
    let error = ShardHintDecodeError::InvertedManifestRows { start_row: u64::MAX, end_row: 0 };
    let bytes = [manifest_bytes([1, u64::MAX, 0]), vec![9; 20]].concat();
    assert_eq!(ShardHint::decode(&bytes), Err(error));
}

#[test]
fn shard_hint_encode_rejects_inverted_manifest_rows() {
    let (start_row, end_row) = (6, 5);
    let error = ShardEncodeError::InvertedManifestRows { start_row, end_row };
    assert_encode_error(rows(1, start_row, end_row), error);
}

#[test]
fn shard_hint_encode_rejects_equal_manifest_rows() {
    for row in [0, 5, u64::MAX] {
        let error = ShardEncodeError::InvertedManifestRows { start_row: row, end_row: row };
        assert_encode_error(rows(1, row, row), error);
    }
}

#[test]
fn hint_may_fill_the_metadata() {
    let bytes = [7; MAX_METADATA_SIZE];
    assert_eq!(encoded(prefix(&bytes[5..])).len(), 16_384);
    assert_roundtrip(prefix(&bytes[5..]));
    let error = ShardEncodeError::HintTooLarge { size: 16_385, max: 16_384 };
    assert_encode_error(prefix(&bytes[4..]), error);
}

#[test]
fn prefix_beyond_its_length_field_is_refused() {
    let max = u32::MAX as usize;
    let too_large = ShardEncodeError::PrefixTooLarge { size: 4_294_967_296, max: 4_294_967_295 };
    assert_eq!(prefix_hint_len(max + 1), Err(too_large));
    assert_eq!(prefix_hint_len(max), Ok(4_294_967_300));
}

#[test]
fn shard_hint_decode_returns_consumed_length_with_trailing_bytes() {
    for (hint, consumed) in [(ShardHint::Range, 1), (prefix(b"abc"), 8), (rows(1, 2, 3), 25)] {
        let bytes = [encoded(hint), b"trailing bytes".to_vec()].concat();
        assert_eq!(ShardHint::decode(&bytes), Ok((hint, consumed)));
    }
}

#[test]
fn encoding_replaces_the_buffer() {
    let mut buf = MetadataBuf::new();
    rows(1, 2, 3).encode_into(&mut buf).unwrap();
    assert_eq!(prefix(b"p").encode_into(&mut buf), Ok(&b"\x01\0\0\0\x01p"[..]));
}

#[test]
fn encode_errors_name_the_limit() {
    let (size, max) = (10, 9);
    for (error, text) in [
        (
            ShardEncodeError::PrefixTooLarge { size, max },
            "a prefix of 10 bytes exceeds the 9 that its length field can hold",
        ),
        (ShardEncodeError::HintTooLarge { size, max }, "a hint of 10 bytes exceeds 9"),
        (ShardEncodeError::MetadataTooLarge { size, max }, "metadata of 10 bytes exceeds 9"),
        (
            ShardEncodeError::InvertedManifestRows { start_row: 6, end_row: 5 },
            "the row range 6..5 is empty or inverted",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none());
    }
}

#[test]
fn decode_errors_name_the_problem() {
    let (expected_min, actual) = (8, 6);
    for (error, text) in [
        (ShardHintDecodeError::EmptyData, "the hint is empty"),
        (ShardHintDecodeError::UnknownTag(3), "unknown hint tag 0x03"),
        (
            ShardHintDecodeError::TruncatedPrefix { expected_min, actual },
            "a prefix hint of at least 8 bytes is truncated to 6",
        ),
        (
            ShardHintDecodeError::TruncatedManifest { expected_min, actual },
            "a manifest hint of 8 bytes is truncated to 6",
        ),
        (
            ShardHintDecodeError::InvertedManifestRows { start_row: 6, end_row: 5 },
            "the row range 6..5 is empty or inverted",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert!(error.source().is_none());
    }
}

#[test]
fn debug_output_of_a_hint_hides_the_prefix() {
    assert_eq!(
        format!("{:?} {:?} {:?}", ShardHint::Range, prefix(b"secret"), rows(1, 2, 3)),
        "Range Prefix { prefix: <6 bytes> } Manifest { manifest_id: 1, rows: 2..3 }"
    );
}
