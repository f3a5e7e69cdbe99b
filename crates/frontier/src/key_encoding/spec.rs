//! Shard specs from typed keys. Each comes as `_ref`, which borrows the caller's buffers, and as
//! `_into`, which stores the result in an arena.

use shardwright_contracts::limits::MAX_KEY_SIZE;
use shardwright_contracts::{
    ShardArena, ShardSpec, ShardSpecHandle, ShardSpecInputError, ShardSpecRef, SlabFull,
};

use super::{KeyBuf, KeyEncoding, ManifestRowKey, prefix_successor};

/// Why a prefix is not a valid shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixShardError {
    /// The prefix is empty.
    #[error("a prefix must not be empty")]
    EmptyPrefix,
    /// The prefix exceeds the limit of keys.
    #[error("a prefix of {size} bytes exceeds {max}")]
    PrefixTooLarge {
        /// Its length.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// The prefix consists of `0xFF` only, so no key ends its range.
    #[error("a prefix of 0xFF bytes alone has no successor to end its range")]
    NoSuccessor,
    /// The range is valid, but the metadata is not.
    #[error("the prefix makes no valid shard")]
    InvalidShardSpec(#[from] ShardSpecInputError),
}

/// Why a shard was not stored: it is invalid, or there is no room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardIntoError<E> {
    /// It is invalid.
    #[error("the shard is invalid")]
    Build(#[source] E),
    /// There is no room for it.
    #[error("the arena has no room for the shard")]
    SlabFull(#[source] SlabFull),
}

/// Makes the shard `[start, end)` from two typed keys. A key with an empty encoding means the end
/// of the keyspace on its side.
pub fn shard_spec_from_keys_ref<'s, S: KeyEncoding, E: KeyEncoding>(
    start: &S,
    end: &E,
    metadata: &'s [u8],
    start_buf: &'s mut KeyBuf,
    end_buf: &'s mut KeyBuf,
) -> Result<ShardSpecRef<'s>, ShardSpecInputError> {
    start_buf.clear();
    start.encode_into(start_buf);
    end_buf.clear();
    end.encode_into(end_buf);
    validated(ShardSpecRef::new(start_buf.to_key()?, end_buf.to_key()?, metadata))
}

/// Makes the shard of all keys that start with `prefix`.
pub fn shard_spec_from_prefix_ref<'s>(
    prefix: &'s [u8],
    metadata: &'s [u8],
    end_buf: &'s mut KeyBuf,
) -> Result<ShardSpecRef<'s>, PrefixShardError> {
    let (start, end) = prefix_bounds(prefix, end_buf)?;
    Ok(validated(ShardSpecRef::new(start, end, metadata))?)
}

/// Makes the shard of the rows from `start_row` up to, not including, `end_row` of one manifest.
pub fn shard_spec_from_manifest_range_ref<'s>(
    manifest_id: u64,
    start_row: u64,
    end_row: u64,
    metadata: &'s [u8],
    start_buf: &'s mut KeyBuf,
    end_buf: &'s mut KeyBuf,
) -> Result<ShardSpecRef<'s>, ShardSpecInputError> {
    let start = ManifestRowKey::new(manifest_id, start_row);
    let end = ManifestRowKey::new(manifest_id, end_row);
    shard_spec_from_keys_ref(&start, &end, metadata, start_buf, end_buf)
}

/// Like [`shard_spec_from_keys_ref`], and stores the shard in `arena`.
pub fn shard_spec_from_keys_into<S: KeyEncoding, E: KeyEncoding>(
    arena: &mut ShardArena,
    start: &S,
    end: &E,
    metadata: &[u8],
    start_buf: &mut KeyBuf,
    end_buf: &mut KeyBuf,
) -> Result<ShardSpecHandle, ShardIntoError<ShardSpecInputError>> {
    store(arena, shard_spec_from_keys_ref(start, end, metadata, start_buf, end_buf))
}

/// Like [`shard_spec_from_prefix_ref`], and stores the shard in `arena`.
pub fn shard_spec_from_prefix_into(
    arena: &mut ShardArena,
    prefix: &[u8],
    metadata: &[u8],
    end_buf: &mut KeyBuf,
) -> Result<ShardSpecHandle, ShardIntoError<PrefixShardError>> {
    store(arena, shard_spec_from_prefix_ref(prefix, metadata, end_buf))
}

/// Like [`shard_spec_from_manifest_range_ref`], and stores the shard in `arena`.
pub fn shard_spec_from_manifest_range_into(
    arena: &mut ShardArena,
    manifest_id: u64,
    start_row: u64,
    end_row: u64,
    metadata: &[u8],
    start_buf: &mut KeyBuf,
    end_buf: &mut KeyBuf,
) -> Result<ShardSpecHandle, ShardIntoError<ShardSpecInputError>> {
    let spec = shard_spec_from_manifest_range_ref(
        manifest_id,
        start_row,
        end_row,
        metadata,
        start_buf,
        end_buf,
    );
    store(arena, spec)
}

/// The bounds of all keys that start with `prefix`.
pub(crate) fn prefix_bounds<'s>(
    prefix: &'s [u8],
    end_buf: &'s mut KeyBuf,
) -> Result<(&'s [u8], &'s [u8]), PrefixShardError> {
    match prefix.len() {
        0 => Err(PrefixShardError::EmptyPrefix),
        size if size > MAX_KEY_SIZE => {
            Err(PrefixShardError::PrefixTooLarge { size, max: MAX_KEY_SIZE })
        }
        _ => {
            let end = prefix_successor(prefix, end_buf).ok_or(PrefixShardError::NoSuccessor)?;
            Ok((prefix, end))
        }
    }
}

/// Returns a spec if it is valid.
pub(crate) fn validated(spec: ShardSpecRef<'_>) -> Result<ShardSpecRef<'_>, ShardSpecInputError> {
    ShardSpec::validate_ref(spec)?;
    Ok(spec)
}

/// Stores a built spec, or returns its error.
pub(crate) fn store<E>(
    arena: &mut ShardArena,
    spec: Result<ShardSpecRef<'_>, E>,
) -> Result<ShardSpecHandle, ShardIntoError<E>> {
    let spec = spec.map_err(ShardIntoError::Build)?;
    arena.alloc(spec).map_err(ShardIntoError::SlabFull)
}
