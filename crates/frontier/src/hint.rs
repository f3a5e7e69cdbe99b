//! What a shard's range represents, stored in its metadata.
//!
//! A range of bytes may be a folder, rows of a manifest or just a range. A [`ShardHint`] states
//! which. It is stored in the shard's metadata, in an envelope with bytes for the connector:
//!
//! ```text
//! envelope   [hint length: u32 BE][hint][connector's bytes]     or nothing at all: a range
//!
//! range      [00]
//! prefix     [01][length: u32 BE][prefix]
//! manifest   [02][manifest id: u64 BE][first row: u64 BE][row after the last: u64 BE]
//! ```
//!
//! There is no version number. A new meaning gets a new tag, and an unknown tag is an error, so no
//! worker processes a shard that it does not understand.

mod shard;
mod split;
mod wire;

use std::fmt;

use arrayvec::ArrayVec;
use shardwright_contracts::limits::MAX_METADATA_SIZE;
use shardwright_contracts::{IntoShardSpecRef, Redacted};

pub use shard::{
    ShardSpecScratch, manifest_shard_into, manifest_shard_ref, prefix_shard_into, prefix_shard_ref,
    range_shard_into, range_shard_ref,
};
pub use split::{
    HintPropagationError, HintedSplitError, SplitBoundary, plan_hinted_split_replace,
    plan_hinted_split_residual, plan_hinted_split_residual_with_extra, propagate_hint_on_split,
};
pub use wire::{ShardEncodeError, ShardHint, ShardHintDecodeError};

const LENGTH_LEN: usize = 4;

/// A reusable buffer for one shard's metadata, of the maximum size.
#[derive(Default)]
pub struct MetadataBuf {
    bytes: ArrayVec<u8, MAX_METADATA_SIZE>,
}

impl MetadataBuf {
    /// The capacity of the buffer.
    pub const CAPACITY: usize = MAX_METADATA_SIZE;

    /// An empty buffer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The bytes in the buffer.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends bytes. The caller has checked the room.
    fn append(&mut self, bytes: &[u8]) {
        let fits = self.bytes.try_extend_from_slice(bytes).is_ok();
        assert!(fits, "lengths are checked before anything is written");
    }

    /// Appends a length. The caller has checked that it fits four bytes.
    fn append_len(&mut self, len: usize) {
        self.append(&(len as u32).to_be_bytes());
    }
}

impl fmt::Debug for MetadataBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetadataBuf({})", Redacted(&self.bytes))
    }
}

/// A shard's metadata: a hint, and bytes that only the connector reads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShardMetadata<'a> {
    /// What the shard's range represents.
    pub hint: ShardHint<'a>,
    /// The connector's bytes, passed through unchanged.
    pub connector_extra: &'a [u8],
}

/// Why metadata is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed shard metadata{}", match .hint_error {
    Some(_) => ": the hint cannot be read",
    None => ": the envelope and the hint disagree on its length, or it is cut short",
})]
pub struct ShardMetadataDecodeError {
    /// The error of the hint, or `None` if the envelope is malformed.
    #[source]
    pub hint_error: Option<ShardHintDecodeError>,
}

impl ShardMetadataDecodeError {
    const ENVELOPE: Self = Self { hint_error: None };
}

impl<'a> ShardMetadata<'a> {
    /// Combines a hint and a connector's bytes.
    #[must_use]
    pub const fn new(hint: ShardHint<'a>, connector_extra: &'a [u8]) -> Self {
        Self { hint, connector_extra }
    }

    /// A hint alone.
    #[must_use]
    pub const fn from_hint(hint: ShardHint<'a>) -> Self {
        Self::new(hint, &[])
    }

    /// The encoded length, if the metadata can be encoded.
    pub fn encoded_len(&self) -> Result<usize, ShardEncodeError> {
        let hint_len = self.hint.encoded_len()?;
        let size = LENGTH_LEN.saturating_add(hint_len).saturating_add(self.connector_extra.len());
        if size > MAX_METADATA_SIZE {
            return Err(ShardEncodeError::MetadataTooLarge { size, max: MAX_METADATA_SIZE });
        }
        Ok(size)
    }

    /// Replaces the content of `buf` by the metadata. On error `buf` is unchanged.
    pub fn encode_into<'b>(&self, buf: &'b mut MetadataBuf) -> Result<&'b [u8], ShardEncodeError> {
        self.encoded_len()?;
        buf.clear();
        buf.append_len(self.hint.encoded_len()?);
        self.hint.append_to(buf);
        buf.append(self.connector_extra);
        Ok(buf.as_bytes())
    }

    /// Decodes metadata. Empty metadata is a plain range.
    pub fn decode(metadata: &'a [u8]) -> Result<Self, ShardMetadataDecodeError> {
        if metadata.is_empty() {
            return Ok(Self::from_hint(ShardHint::Range));
        }
        let (len, rest) = metadata.split_first_chunk().ok_or(ShardMetadataDecodeError::ENVELOPE)?;
        let (hint_bytes, connector_extra) = rest
            .split_at_checked(u32::from_be_bytes(*len) as usize)
            .ok_or(ShardMetadataDecodeError::ENVELOPE)?;
        let (hint, consumed) = ShardHint::decode(hint_bytes)
            .map_err(|error| ShardMetadataDecodeError { hint_error: Some(error) })?;
        if consumed != hint_bytes.len() {
            return Err(ShardMetadataDecodeError::ENVELOPE);
        }
        Ok(Self::new(hint, connector_extra))
    }
}

impl fmt::Debug for ShardMetadata<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardMetadata")
            .field("hint", &self.hint)
            .field("connector_extra", &Redacted(self.connector_extra))
            .finish()
    }
}

/// Decodes a shard's metadata.
pub fn decode_metadata<'a>(
    spec: impl IntoShardSpecRef<'a>,
) -> Result<ShardMetadata<'a>, ShardMetadataDecodeError> {
    ShardMetadata::decode(spec.into_shard_spec_ref().metadata())
}

/// Decodes a shard's hint. All of its metadata must be well-formed.
pub fn decode_hint<'a>(
    spec: impl IntoShardSpecRef<'a>,
) -> Result<ShardHint<'a>, ShardMetadataDecodeError> {
    decode_metadata(spec).map(|metadata| metadata.hint)
}

/// Decodes the connector's bytes of a shard. All of its metadata must be well-formed.
pub fn decode_connector_extra<'a>(
    spec: impl IntoShardSpecRef<'a>,
) -> Result<&'a [u8], ShardMetadataDecodeError> {
    decode_metadata(spec).map(|metadata| metadata.connector_extra)
}

#[cfg(test)]
mod tests;
