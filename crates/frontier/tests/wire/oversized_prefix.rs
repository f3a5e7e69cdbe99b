//! A prefix whose length does not fit its four bytes. This is not a unit test, because their
//! counting allocator would write all 4 GiB. The system's allocator returns zeroed pages that are
//! never touched.

use shardwright_frontier::{MetadataBuf, ShardEncodeError, ShardHint, ShardMetadata};

#[test]
fn prefix_beyond_its_length_field_is_refused() {
    let long = vec![0; u32::MAX as usize + 1];
    let too_large = ShardEncodeError::PrefixTooLarge { size: 4_294_967_296, max: 4_294_967_295 };
    let hint = ShardHint::Prefix { prefix: &long };
    let mut buf = MetadataBuf::new();
    assert_eq!(hint.encoded_len(), Err(too_large));
    assert_eq!(hint.encode_into(&mut buf), Err(too_large));
    assert_eq!(ShardMetadata::new(hint, b"x").encode_into(&mut buf), Err(too_large));
    assert_eq!(buf.as_bytes(), b"");

    let longest = ShardHint::Prefix { prefix: &long[1..] };
    let hint_too_large = ShardEncodeError::HintTooLarge { size: 4_294_967_300, max: 16_384 };
    assert_eq!(longest.encoded_len(), Err(hint_too_large));
}
