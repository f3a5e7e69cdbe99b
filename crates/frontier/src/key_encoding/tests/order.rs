//! Encodings preserve order and give equal keys equal bytes.

use std::cmp::Ordering;

use super::*;

/// Numbers near each other, near the limits, and anywhere, to find errors with signs and carries.
fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4_u64,
        (u64::MAX - 3)..,
        (0..64_u32, 0..3_u64).prop_map(|(shift, off)| (1_u64 << shift).wrapping_sub(off)),
    ]
}

fn floats() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        numbers().prop_map(f64::from_bits),
        prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0]),
    ]
}

/// Bytes that often need escaping.
fn parts() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 2, 0xfe, 0xff]), 0..5)
}

#[test]
fn golden_numbers() {
    let head = |first| [first, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(encoded(&1_u64), [0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(encoded(&i64::MIN), [0; 8]);
    assert_eq!(encoded(&-1_i64), [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(encoded(&0_i64), head(0x80));
    assert_eq!(encoded(&0.0_f64), head(0x80));
    assert_eq!(encoded(&1.0_f64), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&-1.0_f64), [0x40, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn golden_composites() {
    assert_eq!(encoded(&CompositeKey(&[])), b"");
    assert_eq!(encoded(&CompositeKey(&[b"a\0b", b""])), b"a\0\xffb\0\x01\0\x01");
    assert_eq!(encoded(&("a\0b", "")), b"a\0\xffb\0\x01\0\x01");
    assert_eq!(
        encoded(&(1_u64, "x")),
        b"\0\xff\0\xff\0\xff\0\xff\0\xff\0\xff\0\xff\x01\0\x01x\0\x01"
    );
}

#[test]
fn zero_has_one_form_and_nan_has_one_form_after_infinity() {
    assert_eq!(encoded(&-0.0_f64), encoded(&0.0_f64));
    let nan = encoded(&f64::NAN);
    assert_eq!(nan, [0xff, 0xf8, 0, 0, 0, 0, 0, 0]);
    for odd in [-f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::from_bits(u64::MAX)] {
        assert_eq!(encoded(&odd), nan);
    }
    assert!(nan > encoded(&f64::INFINITY));
    assert!(decode_f64_key(&nan).unwrap().is_nan());
}

#[test]
fn numbers_are_read_from_exactly_eight_bytes() {
    for len in (0..20).filter(|len| *len != 8) {
        let bytes = vec![0; len];
        assert_eq!(decode_u64_key(&bytes), None);
        assert_eq!(decode_i64_key(&bytes), None);
        assert_eq!(decode_f64_key(&bytes), None);
    }
}

#[test]
fn oversized_part_makes_an_oversized_key() {
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    let long = "x".repeat(MAX_KEY_SIZE - 4);
    let mut check = |key: &(&str, &str)| {
        shard_spec_from_keys_ref(&("", ""), key, b"", &mut start, &mut end).map(drop)
    };
    assert_eq!(check(&("", &long)), Ok(()), "two terminators of two bytes each fill the key");
    let refused = ShardSpecInputError::KeyTooLarge { size: 4_097, max: 4_096 };
    assert_eq!(check(&("y", &long)), Err(refused));
    let huge = "x".repeat(2 * MAX_KEY_SIZE);
    assert!(check(&(&huge, "")).is_err());
    assert!(check(&("", &huge)).is_err());
}

#[test]
fn malformed_composites_are_refused() {
    let mut part = KeyBuf::new();
    let mut decode = |key: &[u8]| decode_composite_part(key, &mut part).map(drop);
    assert_eq!(decode(b"a\0\x01"), Ok(()));
    for cut in [&b""[..], b"a", b"a\0", b"\0\xff", b"\0\xff\0"] {
        assert_eq!(decode(cut), Err(CompositeDecodeError::Unterminated), "{cut:?}");
    }
    for unknown in (0..=u8::MAX).filter(|byte| ![0x01, 0xff].contains(byte)) {
        let error = CompositeDecodeError::UnknownEscape(unknown);
        assert_eq!(decode(&[b'a', 0, unknown]), Err(error));
    }
    let key = |len| [vec![b'x'; len], vec![0, 1]].concat();
    assert_eq!(decode(&key(MAX_KEY_SIZE)), Ok(()));
    for size in [4_097, 4_098, 9_000] {
        let error = CompositeDecodeError::PartTooLarge { size, max: 4_096 };
        assert_eq!(decode(&key(size)), Err(error));
    }
}

/// An encoding that only appends. The caller clears the buffer.
struct Appended(&'static [u8]);

impl KeyEncoding for Appended {
    fn encode_into(&self, buf: &mut KeyBuf) {
        buf.extend_from_slice(self.0);
    }
}

#[test]
fn parts_do_not_run_into_each_other() {
    assert_eq!(encoded(&(Appended(b"a"), Appended(b"b"))), b"a\0\x01b\0\x01");
    let (mut start, mut end) = (KeyBuf::new(), KeyBuf::new());
    for _ in 0..2 {
        let (a, b) = (Appended(b"a"), Appended(b"b"));
        let spec = shard_spec_from_keys_ref(&a, &b, b"", &mut start, &mut end).unwrap();
        assert_eq!((spec.start(), spec.end()), (&b"a"[..], &b"b"[..]));
    }
    assert_eq!(format!("{:?}", CompositeKey(&[b"secret", b""])), "[<6 bytes>, <0 bytes>]");
}

fn assert_same_order<K: KeyEncoding>(a: &K, b: &K, order: Ordering) -> Result<(), TestCaseError> {
    prop_assert_eq!(encoded(a).cmp(&encoded(b)), order);
    Ok(())
}

proptest! {
    #[test]
    fn path_key_encoding_preserves_logical_order(a in "[\\PC\\x00]{1,8}", b in "[\\PC\\x00]{1,8}") {
        assert_same_order(&PathKey::new(&a), &PathKey::new(&b), a.cmp(&b))?;
        prop_assert_eq!(PathKey::new(&a).cmp(&PathKey::new(&b)), a.cmp(&b));
    }

    #[test]
    fn manifest_row_key_encoding_preserves_logical_order(
        a in (numbers(), numbers()), b in (numbers(), numbers()),
    ) {
        let key = |(manifest, row)| ManifestRowKey::new(manifest, row);
        assert_same_order(&key(a), &key(b), a.cmp(&b))?;
        prop_assert_eq!(key(a).cmp(&key(b)), a.cmp(&b));
    }

    #[test]
    fn manifest_row_key_encode_decode_roundtrip(manifest in numbers(), row in numbers()) {
        let key = ManifestRowKey::new(manifest, row);
        prop_assert_eq!(decode_manifest_row_key(&encoded(&key)), Some(key));
    }

    #[test]
    fn unsigned_numbers_keep_order_and_round_trip(a in numbers(), b in numbers()) {
        assert_same_order(&a, &b, a.cmp(&b))?;
        prop_assert_eq!(decode_u64_key(&encoded(&a)), Some(a));
    }

    #[test]
    fn signed_numbers_keep_order_and_round_trip(a in numbers(), b in numbers()) {
        let (a, b) = (a.cast_signed(), b.cast_signed());
        assert_same_order(&a, &b, a.cmp(&b))?;
        prop_assert_eq!(decode_i64_key(&encoded(&a)), Some(a));
    }

    #[test]
    fn floats_keep_order_and_round_trip(a in floats(), b in floats()) {
        let order = a.partial_cmp(&b).unwrap_or(a.is_nan().cmp(&b.is_nan()));
        assert_same_order(&a, &b, order)?;
        let back = decode_f64_key(&encoded(&a)).unwrap();
        prop_assert!(back == a || (back.is_nan() && a.is_nan()));
        prop_assert_eq!(encoded(&back), encoded(&a));
    }

    #[test]
    fn composites_keep_the_order_of_their_parts(
        a in prop::collection::vec(parts(), 0..4), b in prop::collection::vec(parts(), 0..4),
    ) {
        let parts_of = |key: &[Vec<u8>]| {
            let parts: Vec<&[u8]> = key.iter().map(Vec::as_slice).collect();
            encoded(&CompositeKey(&parts))
        };
        prop_assert_eq!(parts_of(&a).cmp(&parts_of(&b)), a.cmp(&b));
    }

    #[test]
    fn composites_round_trip(key in prop::collection::vec(parts(), 0..5)) {
        let views: Vec<&[u8]> = key.iter().map(Vec::as_slice).collect();
        let bytes = encoded(&CompositeKey(&views));
        let (mut rest, mut part, mut read) = (&bytes[..], KeyBuf::new(), Vec::new());
        while !rest.is_empty() {
            rest = decode_composite_part(rest, &mut part).unwrap();
            read.push(part.as_bytes().to_vec());
        }
        prop_assert_eq!(read, key);
    }

    #[test]
    fn tuples_keep_the_order_of_their_elements(
        a in (numbers(), parts(), numbers()), b in (numbers(), parts(), numbers()),
    ) {
        let pair = |(n, bytes, _): &(u64, Vec<u8>, u64)| encoded(&(&bytes[..], *n));
        prop_assert_eq!(pair(&a).cmp(&pair(&b)), (&a.1, a.0).cmp(&(&b.1, b.0)));
        let signed = |(n, bytes, last): &(u64, Vec<u8>, u64)| {
            encoded(&(n.cast_signed(), &bytes[..], *last))
        };
        let logical = |(n, bytes, last): &(u64, Vec<u8>, u64)| {
            (n.cast_signed(), bytes.clone(), *last)
        };
        prop_assert_eq!(signed(&a).cmp(&signed(&b)), logical(&a).cmp(&logical(&b)));
    }

    #[test]
    fn tuples_of_every_length_are_composites_of_their_encodings(
        parts in prop::array::uniform6(parts()),
    ) {
        let [a, b, c, d, e, f] = parts.each_ref().map(Vec::as_slice);
        let composite = |parts: &[&[u8]]| encoded(&CompositeKey(parts));
        prop_assert_eq!(encoded(&(a, b)), composite(&[a, b]));
        prop_assert_eq!(encoded(&(a, b, c)), composite(&[a, b, c]));
        prop_assert_eq!(encoded(&(a, b, c, d)), composite(&[a, b, c, d]));
        prop_assert_eq!(encoded(&(a, b, c, d, e)), composite(&[a, b, c, d, e]));
        prop_assert_eq!(encoded(&(a, b, c, d, e, f)), composite(&[a, b, c, d, e, f]));
    }
}
