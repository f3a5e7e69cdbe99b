//! Shard specs with a hint in their metadata, borrowed from a scratch (`_ref`) or stored in an
//! arena (`_into`).

use shardwright_contracts::{ShardArena, ShardSpecHandle, ShardSpecInputError, ShardSpecRef};

use super::{MetadataBuf, ShardEncodeError, ShardHint, ShardMetadata};
use crate::key_encoding::{
    KeyBuf, PrefixShardError, ShardIntoError, prefix_bounds, shard_spec_from_manifest_range_ref,
    store, validated,
};

/// The buffers for making one shard. Reuse them.
#[derive(Debug, Default)]
pub struct ShardSpecScratch {
    start: KeyBuf,
    end: KeyBuf,
    metadata: MetadataBuf,
}

impl ShardSpecScratch {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Makes the shard `[start, end)`.
pub fn range_shard_ref<'s>(
    start: &'s [u8],
    end: &'s [u8],
    connector_extra: &[u8],
    scratch: &'s mut ShardSpecScratch,
) -> Result<ShardSpecRef<'s>, ShardSpecInputError> {
    let metadata = envelope(ShardHint::Range, connector_extra, &mut scratch.metadata)?;
    validated(ShardSpecRef::new(start, end, metadata))
}

/// Makes the shard of all keys that start with `prefix`.
pub fn prefix_shard_ref<'s>(
    prefix: &'s [u8],
    connector_extra: &[u8],
    scratch: &'s mut ShardSpecScratch,
) -> Result<ShardSpecRef<'s>, PrefixShardError> {
    let (start, end) = prefix_bounds(prefix, &mut scratch.end)?;
    let hint = ShardHint::Prefix { prefix };
    let metadata = envelope(hint, connector_extra, &mut scratch.metadata)?;
    Ok(validated(ShardSpecRef::new(start, end, metadata))?)
}

/// Makes the shard of the rows from `start_row` up to, not including, `end_row` of one manifest.
pub fn manifest_shard_ref<'s>(
    manifest_id: u64,
    start_row: u64,
    end_row: u64,
    connector_extra: &[u8],
    scratch: &'s mut ShardSpecScratch,
) -> Result<ShardSpecRef<'s>, ShardSpecInputError> {
    let ShardSpecScratch { start, end, metadata } = scratch;
    let hint = ShardHint::Manifest { manifest_id, start_row, end_row };
    let metadata = envelope(hint, connector_extra, metadata)?;
    shard_spec_from_manifest_range_ref(manifest_id, start_row, end_row, metadata, start, end)
}

/// Like [`range_shard_ref`], and stores the shard in `arena`.
pub fn range_shard_into(
    arena: &mut ShardArena,
    start: &[u8],
    end: &[u8],
    connector_extra: &[u8],
    scratch: &mut ShardSpecScratch,
) -> Result<ShardSpecHandle, ShardIntoError<ShardSpecInputError>> {
    store(arena, range_shard_ref(start, end, connector_extra, scratch))
}

/// Like [`prefix_shard_ref`], and stores the shard in `arena`.
pub fn prefix_shard_into(
    arena: &mut ShardArena,
    prefix: &[u8],
    connector_extra: &[u8],
    scratch: &mut ShardSpecScratch,
) -> Result<ShardSpecHandle, ShardIntoError<PrefixShardError>> {
    store(arena, prefix_shard_ref(prefix, connector_extra, scratch))
}

/// Like [`manifest_shard_ref`], and stores the shard in `arena`.
pub fn manifest_shard_into(
    arena: &mut ShardArena,
    manifest_id: u64,
    start_row: u64,
    end_row: u64,
    connector_extra: &[u8],
    scratch: &mut ShardSpecScratch,
) -> Result<ShardSpecHandle, ShardIntoError<ShardSpecInputError>> {
    store(arena, manifest_shard_ref(manifest_id, start_row, end_row, connector_extra, scratch))
}

/// Encodes the metadata and converts errors to those of a shard spec.
pub(super) fn envelope<'b>(
    hint: ShardHint<'_>,
    connector_extra: &[u8],
    buf: &'b mut MetadataBuf,
) -> Result<&'b [u8], ShardSpecInputError> {
    ShardMetadata::new(hint, connector_extra).encode_into(buf).map_err(|error| match error {
        ShardEncodeError::PrefixTooLarge { size, max }
        | ShardEncodeError::HintTooLarge { size, max }
        | ShardEncodeError::MetadataTooLarge { size, max } => {
            ShardSpecInputError::MetadataTooLarge { size, max }
        }
        ShardEncodeError::InvertedManifestRows { .. } => ShardSpecInputError::InvertedRange {
            start_len: crate::ManifestRowKey::ENCODED_LEN,
            end_len: crate::ManifestRowKey::ENCODED_LEN,
        },
    })
}
