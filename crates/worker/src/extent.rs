//! The token of a cursor: where the results of a shard are.
//!
//! Results are appended to one segment per shard and fence. The checkpoint that moves the cursor
//! over an item names the bytes that hold its result. Bytes that no committed cursor names are not
//! results: a holder that lost its shard may have written them.

use shardwright_contracts::limits::MAX_TOKEN_SIZE;
use shardwright_contracts::{FenceEpoch, ShardId};

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 1 + 4 * 8 + 4;
const EXTENT_BYTES: usize = 4 * 8 + 32;

/// Most extents of a shard. A holder that finds more copies them into one.
pub const MAX_EXTENTS: usize = 48;

// A token can hold them, and some kilobytes of the connector.
const _: () = assert!(HEAD_BYTES + MAX_EXTENTS * EXTENT_BYTES <= MAX_TOKEN_SIZE / 2);

/// The durable prefix of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The shard of the segment.
    pub shard: ShardId,
    /// The fence under which it was written.
    pub fence: FenceEpoch,
    /// Length in bytes.
    pub length: u64,
    /// Number of results.
    pub items: u64,
    /// BLAKE3 of the bytes.
    pub digest: [u8; 32],
}

/// The content of a cursor's token: the connector's token, counts, and the extents of the results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenEnvelope {
    /// The connector's token.
    pub connector: Vec<u8>,
    /// Items that are done.
    pub items: u64,
    /// Their bytes in the source.
    pub bytes: u64,
    /// Number of retries.
    pub retries: u64,
    /// Items that failed and could not be parked.
    pub failed: u64,
    /// Where the results are.
    pub extents: Vec<Extent>,
}

/// Why a token cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenEnvelopeError {
    /// It has another version.
    #[error("the cursor's token has version {found}; this program reads {known}", known = VERSION)]
    Version {
        /// The version.
        found: u8,
    },
    /// It is truncated or malformed.
    #[error("the cursor's token is damaged, or was written by another program")]
    Damaged,
}

impl TokenEnvelope {
    /// Encodes the token.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let extents = self.extents.len() * EXTENT_BYTES;
        let mut out = Vec::with_capacity(HEAD_BYTES + extents + self.connector.len());
        out.push(VERSION);
        for number in [self.items, self.bytes, self.retries, self.failed] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let count = u32::try_from(self.extents.len()).unwrap_or(u32::MAX);
        out.extend_from_slice(&count.to_le_bytes());
        for extent in &self.extents {
            for number in
                [extent.shard.as_raw(), extent.fence.as_raw(), extent.length, extent.items]
            {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&extent.digest);
        }
        out.extend_from_slice(&self.connector);
        out
    }

    /// Decodes a token. No token decodes to an empty envelope.
    pub fn decode(token: Option<&[u8]>) -> Result<Self, TokenEnvelopeError> {
        let Some(token) = token else { return Ok(Self::default()) };
        let mut reader = Reader(token);
        match reader.take::<1>()? {
            [VERSION] => {}
            [found] => return Err(TokenEnvelopeError::Version { found }),
        }
        let [items, bytes] = [reader.number()?, reader.number()?];
        let [retries, failed] = [reader.number()?, reader.number()?];
        let count = u32::from_le_bytes(reader.take()?) as usize;
        if count > reader.0.len() / EXTENT_BYTES {
            return Err(TokenEnvelopeError::Damaged);
        }
        let extents = (0..count).map(|_| reader.extent()).collect::<Result<_, _>>()?;
        Ok(Self { connector: reader.0.to_vec(), items, bytes, retries, failed, extents })
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const LEN: usize>(&mut self) -> Result<[u8; LEN], TokenEnvelopeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(TokenEnvelopeError::Damaged)?;
        self.0 = rest;
        Ok(*array)
    }

    fn number(&mut self) -> Result<u64, TokenEnvelopeError> {
        self.take().map(u64::from_le_bytes)
    }

    fn extent(&mut self) -> Result<Extent, TokenEnvelopeError> {
        let shard = ShardId::from_raw(self.number()?);
        let fence =
            FenceEpoch::from_raw(self.number()?).map_err(|_| TokenEnvelopeError::Damaged)?;
        let (length, items) = (self.number()?, self.number()?);
        Ok(Extent { shard, fence, length, items, digest: self.take()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longest token of a connector that fits beside the extents.
    const MAX_CONNECTOR_TOKEN: usize = MAX_TOKEN_SIZE - HEAD_BYTES - MAX_EXTENTS * EXTENT_BYTES;

    fn extent(raw: u64) -> Extent {
        let (shard, fence) = (ShardId::from_raw(raw), FenceEpoch::from_raw(raw + 1).unwrap());
        Extent { shard, fence, length: raw * 10, items: raw, digest: [7; 32] }
    }

    fn full() -> TokenEnvelope {
        TokenEnvelope {
            connector: vec![9; MAX_CONNECTOR_TOKEN],
            items: 1,
            bytes: 2,
            retries: 3,
            failed: 4,
            extents: (0..MAX_EXTENTS as u64).map(extent).collect(),
        }
    }

    #[test]
    fn an_envelope_round_trips() {
        for envelope in [TokenEnvelope::default(), full()] {
            assert_eq!(TokenEnvelope::decode(Some(&envelope.encode())), Ok(envelope));
        }
        assert_eq!(TokenEnvelope::decode(None), Ok(TokenEnvelope::default()));
    }

    #[test]
    fn the_largest_envelope_is_a_valid_token() {
        assert_eq!(full().encode().len(), MAX_TOKEN_SIZE);
    }

    #[test]
    fn truncated_tokens_and_other_versions_are_rejected() {
        let small = TokenEnvelope { connector: Vec::new(), extents: vec![extent(1)], ..full() };
        let token = small.encode();
        for length in 0..token.len() {
            assert_eq!(
                TokenEnvelope::decode(Some(&token[..length])),
                Err(TokenEnvelopeError::Damaged)
            );
        }
        let later = [&[3], &token[1..]].concat();
        assert_eq!(
            TokenEnvelope::decode(Some(&later)),
            Err(TokenEnvelopeError::Version { found: 3 })
        );
        let mut without_fence = token;
        without_fence[HEAD_BYTES + 8..HEAD_BYTES + 16].fill(0);
        assert_eq!(TokenEnvelope::decode(Some(&without_fence)), Err(TokenEnvelopeError::Damaged));
    }
}
