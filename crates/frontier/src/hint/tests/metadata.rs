use super::*;

fn encoded(metadata: ShardMetadata<'_>) -> Vec<u8> {
    let mut buf = MetadataBuf::default();
    let bytes = metadata.encode_into(&mut buf).unwrap().to_vec();
    assert_eq!(buf.as_bytes(), bytes);
    assert_eq!(metadata.encoded_len(), Ok(bytes.len()));
    bytes
}

/// Checks that metadata is refused and that the buffer is unchanged.
fn assert_encode_error(metadata: ShardMetadata<'_>, error: ShardEncodeError) {
    let mut buf = MetadataBuf::new();
    prefix(b"kept").encode_into(&mut buf).unwrap();
    assert_eq!(metadata.encoded_len(), Err(error));
    assert_eq!(metadata.encode_into(&mut buf), Err(error));
    assert_eq!(buf.as_bytes(), b"\x01\0\0\0\x04kept");
}

#[test]
fn metadata_buffer_starts_empty_and_hides_its_content() {
    let mut buf = MetadataBuf::new();
    assert_eq!((buf.as_bytes(), MetadataBuf::CAPACITY), (&b""[..], 16_384));
    prefix(b"secret").encode_into(&mut buf).unwrap();
    assert_eq!(format!("{buf:?}"), "MetadataBuf(<11 bytes>)");
}

#[test]
fn golden_envelope_bytes() {
    for (metadata, bytes) in [
        (ShardMetadata::from_hint(ShardHint::Range), &b"\0\0\0\x01\0"[..]),
        (ShardMetadata::new(ShardHint::Range, b"xy"), b"\0\0\0\x01\0xy"),
        (ShardMetadata::new(prefix(b"ab"), b"x"), b"\0\0\0\x07\x01\0\0\0\x02abx"),
        (
            ShardMetadata::new(rows(1, 2, 3), b"x"),
            b"\0\0\0\x19\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03x",
        ),
    ] {
        assert_eq!(encoded(metadata), bytes);
    }
    // A hint of 0x0102 bytes shows the byte order of its length.
    assert_eq!(encoded(ShardMetadata::from_hint(prefix(&[9; 0xfd])))[..5], [0, 0, 1, 2, 1]);
}

#[test]
fn shard_metadata_encode_decode_roundtrip() {
    let mut buf = MetadataBuf::new();
    for hint in [ShardHint::Range, prefix(b"folder/"), rows(1, 2, 3)] {
        for extra in [&b""[..], b"extra", b"\0\0\0\x01\0"] {
            let metadata = ShardMetadata::new(hint, extra);
            let bytes = metadata.encode_into(&mut buf).unwrap();
            let decoded = ShardMetadata::decode(bytes).unwrap();
            assert_eq!((decoded.hint, decoded.connector_extra), (hint, extra));
        }
    }
}

proptest! {
    #[test]
    fn shard_metadata_proptest_roundtrip(hint in any_hint(), extra in any_bytes()) {
        let metadata = ShardMetadata::new(hint.lend(), &extra);
        let bytes = encoded(metadata);
        prop_assert_eq!(ShardMetadata::decode(&bytes), Ok(metadata));
        // A missing byte of the hint is detected. Missing connector bytes cannot be.
        for cut in 1..bytes.len() - extra.len() {
            prop_assert!(ShardMetadata::decode(&bytes[..cut]).is_err(), "cut to {cut} bytes");
        }
    }
}

#[test]
fn shard_metadata_decode_empty_defaults_to_range_hint() {
    let decoded = ShardMetadata::decode(b"").unwrap();
    assert_eq!(decoded, ShardMetadata::new(ShardHint::Range, b""));
}

#[test]
fn shard_metadata_decode_rejects_non_empty_non_conforming_input() {
    let cut = ShardHintDecodeError::TruncatedManifest { expected_min: 25, actual: 2 };
    for (bytes, hint_error) in [
        (&b"\0"[..], None),
        (b"\0\0\0", None),
        (b"plain", None),
        (b"\0\0\0\x02\0", None),
        (b"\xff\xff\xff\xff\0", None),
        // The hint ends before its declared length does.
        (b"\0\0\0\x02\0x", None),
        (b"\0\0\0\0", Some(ShardHintDecodeError::EmptyData)),
        (b"\0\0\0\0\0", Some(ShardHintDecodeError::EmptyData)),
        (b"\0\0\0\x01\x03", Some(ShardHintDecodeError::UnknownTag(3))),
        // A hint may not reach into the connector's bytes.
        (&[&b"\0\0\0\x02\x02"[..], &[9; 40]].concat(), Some(cut)),
    ] {
        let error = ShardMetadataDecodeError { hint_error };
        assert_eq!(ShardMetadata::decode(bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn shard_metadata_encode_rejects_oversized_payload() {
    let long = [7; MAX_METADATA_SIZE];
    let too_large = |size| ShardEncodeError::MetadataTooLarge { size, max: 16_384 };
    // Four bytes of length, then one of a range's hint, or five and the prefix.
    for (hint, room) in [
        (ShardHint::Range, 16_379),
        (prefix(b"abc"), 16_372),
        (rows(1, 2, 3), 16_355),
        (prefix(&long[9..]), 0),
    ] {
        let largest = ShardMetadata::new(hint, &long[..room]);
        let bytes = encoded(largest);
        assert_eq!(bytes.len(), 16_384);
        assert_eq!(ShardMetadata::decode(&bytes), Ok(largest));
        assert_encode_error(ShardMetadata::new(hint, &long[..=room]), too_large(16_385));
    }
    // These are valid hints, but one to four bytes too long with their length in front.
    assert_encode_error(ShardMetadata::from_hint(prefix(&long[8..])), too_large(16_385));
    assert_encode_error(ShardMetadata::from_hint(prefix(&long[5..])), too_large(16_388));
}

#[test]
fn metadata_reports_the_error_of_its_hint() {
    let long = [7; MAX_METADATA_SIZE];
    let error = ShardEncodeError::HintTooLarge { size: 16_385, max: 16_384 };
    assert_encode_error(ShardMetadata::new(prefix(&long[4..]), &long), error);
    let error = ShardEncodeError::InvertedManifestRows { start_row: 5, end_row: 5 };
    assert_encode_error(ShardMetadata::new(rows(1, 5, 5), &long), error);
}

#[test]
fn decode_helpers_read_every_form_of_a_spec() {
    let bytes = encoded(ShardMetadata::new(prefix(b"a"), b"extra"));
    let owned = ShardSpec::try_new(b"a", b"b", &bytes).unwrap();
    let view = owned.as_spec_ref();
    let expected = ShardMetadata::new(prefix(b"a"), b"extra");
    assert_eq!(decode_metadata(&owned), Ok(expected));
    assert_eq!(decode_metadata(view), Ok(expected));
    assert_eq!(decode_hint(&owned), Ok(prefix(b"a")));
    assert_eq!(decode_connector_extra(&owned), Ok(&b"extra"[..]));

    let bare = ShardSpecRef::new(b"a", b"b", b"");
    assert_eq!(decode_hint(bare), Ok(ShardHint::Range));
    assert_eq!(decode_connector_extra(bare), Ok(&b""[..]));
}

#[test]
fn decode_helpers_propagate_malformed_metadata_errors() {
    for (bytes, hint_error) in [
        (&b"\0\0\0\x09\0"[..], None),
        (b"\0\0\0\x01\x07", Some(ShardHintDecodeError::UnknownTag(7))),
    ] {
        let spec = ShardSpecRef::new(b"a", b"b", bytes);
        let error = ShardMetadataDecodeError { hint_error };
        assert_eq!(decode_metadata(spec), Err(error));
        assert_eq!(decode_hint(spec), Err(error));
        assert_eq!(decode_connector_extra(spec), Err(error));
    }
}

#[test]
fn decode_errors_distinguish_hint_and_envelope() {
    let hint_error = Some(ShardHintDecodeError::UnknownTag(3));
    let error = ShardMetadataDecodeError { hint_error };
    assert_eq!(error.to_string(), "malformed shard metadata: the hint cannot be read");
    assert_eq!(error.source().unwrap().to_string(), "unknown hint tag 0x03");

    let error = ShardMetadataDecodeError { hint_error: None };
    assert_eq!(
        error.to_string(),
        "malformed shard metadata: the envelope and the hint disagree on its length, or it is \
         cut short"
    );
    assert!(error.source().is_none());
}

#[test]
fn debug_output_of_metadata_hides_all_bytes() {
    assert_eq!(
        format!("{:?}", ShardMetadata::new(prefix(b"secret"), b"token")),
        "ShardMetadata { hint: Prefix { prefix: <6 bytes> }, connector_extra: <5 bytes> }"
    );
}
