use shardwright_contracts::ShardSpecRef;
use shardwright_frontier::{
    MetadataBuf, ShardHint, ShardHintDecodeError, ShardMetadata, decode_connector_extra,
    decode_hint, decode_metadata,
};

/// Decoding a hint never panics, and accepts exactly what encoding writes.
pub(crate) fn hint(data: &[u8]) {
    let mut buf = MetadataBuf::new();
    match ShardHint::decode(data) {
        Ok((hint, consumed)) => {
            assert_eq!(ShardHint::decode(&data[..consumed]), Ok((hint, consumed)));
            for cut in 0..consumed.min(64) {
                assert!(ShardHint::decode(&data[..cut]).is_err(), "a truncated hint was accepted");
            }
            // A prefix may be longer on the wire than metadata allows. Everything else fits.
            if consumed <= MetadataBuf::CAPACITY {
                assert_eq!(hint.encoded_len(), Ok(consumed));
                assert_eq!(hint.encode_into(&mut buf), Ok(&data[..consumed]));
            }
        }
        Err(ShardHintDecodeError::EmptyData) => assert!(data.is_empty()),
        Err(ShardHintDecodeError::UnknownTag(tag)) => {
            assert_eq!(tag, data[0]);
            assert!(tag > 2);
        }
        Err(
            ShardHintDecodeError::TruncatedPrefix { expected_min, actual }
            | ShardHintDecodeError::TruncatedManifest { expected_min, actual },
        ) => {
            assert_eq!(actual, data.len());
            assert!(expected_min > actual);
        }
        Err(ShardHintDecodeError::InvertedManifestRows { start_row, end_row }) => {
            assert!(start_row >= end_row);
        }
    }
}

/// Decoding metadata never panics, and accepts exactly what encoding writes.
pub(crate) fn metadata(data: &[u8]) {
    let spec = ShardSpecRef::new(b"a", b"b", data);
    let decoded = ShardMetadata::decode(data);
    assert_eq!(decode_metadata(spec), decoded);
    assert_eq!(decode_hint(spec), decoded.map(|metadata| metadata.hint));
    assert_eq!(decode_connector_extra(spec), decoded.map(|metadata| metadata.connector_extra));

    let mut buf = MetadataBuf::new();
    match decoded {
        Ok(metadata) if data.is_empty() => {
            assert_eq!(metadata, ShardMetadata::from_hint(ShardHint::Range));
        }
        Ok(metadata) if data.len() <= MetadataBuf::CAPACITY => {
            assert_eq!(metadata.encoded_len(), Ok(data.len()));
            assert_eq!(metadata.encode_into(&mut buf), Ok(data));
        }
        Ok(metadata) => assert!(metadata.encode_into(&mut buf).is_err()),
        Err(error) => {
            // Either the hint is malformed and reports it by itself, or the envelope is.
            let hint_error = data.split_first_chunk().and_then(|(len, rest)| {
                let hint = rest.get(..u32::from_be_bytes(*len) as usize)?;
                ShardHint::decode(hint).err()
            });
            assert_eq!(error.hint_error, hint_error);
        }
    }
}
