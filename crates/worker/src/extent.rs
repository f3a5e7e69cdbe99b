//! Where the results of a shard are, as its cursor's token says.
//!
//! Results are appended to one segment per shard and fence, and the checkpoint that moves the
//! cursor over an item names the bytes that hold its result. Bytes that no committed cursor names
//! do not exist: a holder that lost its shard may have written them.

use shardwright_contracts::limits::MAX_TOKEN_SIZE;
use shardwright_contracts::{FenceEpoch, ShardId};

const VERSION: u8 = 2;
const HEAD_BYTES: usize = 1 + 4 * 8 + 4;
const EXTENT_BYTES: usize = 4 * 8 + 32;

/// Most extents that a shard carries along. A holder that finds more copies them into one.
pub const MAX_EXTENTS: usize = 48;

// A token has room for them, and for some kilobytes of the connector's.
const _: () = assert!(HEAD_BYTES + MAX_EXTENTS * EXTENT_BYTES <= MAX_TOKEN_SIZE / 2);

/// The beginning of a segment, up to a length that was made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Whose segment it is.
    pub shard: ShardId,
    /// Under which fence it was written.
    pub fence: FenceEpoch,
    /// How many bytes.
    pub length: u64,
    /// How many results they hold.
    pub items: u64,
    /// BLAKE3 of the bytes.
    pub digest: [u8; 32],
}

/// What a cursor's token holds: the connector's token, what has been done, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenEnvelope {
    /// What the connector wants back.
    pub connector: Vec<u8>,
    /// Items that are done.
    pub items: u64,
    /// Bytes of the source that they stand for.
    pub bytes: u64,
    /// How often an item was tried again.
    pub retries: u64,
    /// How many of the items failed and could not be set aside.
    pub failed: u64,
    /// Where the results are.
    pub extents: Vec<Extent>,
}

/// Why a token is no envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenEnvelopeError {
    /// A later version wrote it.
    #[error("the cursor's token has version {found}; known is {known}", known = VERSION)]
    Version {
        /// Which.
        found: u8,
    },
    /// It is cut short, has bytes left over, or makes no sense.
    #[error("the cursor's token is damaged: it was not written by this program")]
    Damaged,
}

impl TokenEnvelope {
    /// Writes the token.
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

    /// Reads a token. None at all is an empty envelope.
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
    fn what_is_written_is_read() {
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
    fn what_was_cut_short_or_is_of_another_version_is_refused() {
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
