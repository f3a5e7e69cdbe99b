use shardwright_frontier::{
    CompositeDecodeError, CompositeKey, KeyBuf, KeyEncoding, decode_composite_part,
};

/// Decoding a composite never panics, and accepts exactly what encoding writes.
pub(crate) fn composite(key: &[u8]) {
    let (mut rest, mut part, mut parts) = (key, KeyBuf::new(), Vec::new());
    while !rest.is_empty() {
        match decode_composite_part(rest, &mut part) {
            Ok(after) => {
                assert!(after.len() + 2 <= rest.len(), "a part has at least its terminator");
                parts.push(part.as_bytes().to_vec());
                rest = after;
            }
            Err(CompositeDecodeError::PartTooLarge { size, max }) => {
                assert!(size > max && size < rest.len());
                return;
            }
            Err(CompositeDecodeError::UnknownEscape(byte)) => {
                assert!(rest.windows(2).any(|pair| pair == [0, byte]));
                return;
            }
            Err(CompositeDecodeError::Unterminated) => return,
        }
    }
    let views: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let mut buf = KeyBuf::new();
    CompositeKey(&views).encode_into(&mut buf);
    if key.len() <= KeyBuf::CAPACITY {
        assert_eq!(buf.as_bytes(), key);
    } else {
        assert!(buf.to_key().is_err());
    }
}
