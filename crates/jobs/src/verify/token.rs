//! The token of a cursor, by its format: a version, four counts, the number of extents, each with
//! shard, fence, length, items (all `u64`, little-endian) and a digest, and the connector's bytes.

/// What a cursor says of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) retries: u64,
    pub(super) failed: u64,
    pub(super) extents: Vec<TokenExtent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenExtent {
    pub(super) shard: u64,
    pub(super) fence: u64,
    pub(super) length: u64,
    pub(super) items: u64,
    pub(super) digest: [u8; 32],
}

/// Reads a token; none if it makes no sense.
pub(super) fn parse(token: &[u8]) -> Option<Token> {
    let mut at = 0;
    let mut number = |size: usize| {
        let bytes = token.get(at..at + size)?;
        at += size;
        Some(bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if number(1)? != 2 {
        return None;
    }
    let (items, bytes, retries, failed) = (number(8)?, number(8)?, number(8)?, number(8)?);
    let count = number(4)?;
    let mut extents = Vec::new();
    for _ in 0..count {
        let (shard, fence) = (number(8)?, number(8)?);
        let (length, items) = (number(8)?, number(8)?);
        let mut digest = [0; 32];
        for byte in &mut digest {
            *byte = u8::try_from(number(1)?).ok()?;
        }
        extents.push(TokenExtent { shard, fence, length, items, digest });
    }
    Some(Token { items, bytes, retries, failed, extents })
}
