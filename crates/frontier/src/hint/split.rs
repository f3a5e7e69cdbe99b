use std::fmt;

use arrayvec::ArrayVec;
use shardwright_contracts::limits::{MAX_KEY_SIZE, MAX_SPLIT_CHILDREN};
use shardwright_contracts::{
    CursorUpdate, ShardSpecRef, SplitChild, SplitReplacePlan, SplitResidualPlan,
    SplitValidationError, plan_split_replace, plan_split_replace_with_children,
    plan_split_residual, plan_split_residual_with_metadata,
};

use super::shard::envelope;
use super::{MetadataBuf, ShardHint, ShardMetadata, ShardMetadataDecodeError, decode_metadata};
use crate::key_encoding::{
    KeyBuf, KeyEncoding as _, ManifestRowKey, decode_manifest_row_key, key_successor,
    prefix_successor,
};

/// Why a shard with a hint could not be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintedSplitError {
    /// The boundary does not split the shard.
    #[error("the boundary does not split the shard")]
    Split(#[from] SplitValidationError),
    /// The shard's metadata cannot be read.
    #[error("the shard's metadata cannot be read")]
    Metadata(#[from] ShardMetadataDecodeError),
    /// The parent's hint does not allow the boundary.
    #[error("the shard's hint does not allow the boundary")]
    Hint(#[from] HintPropagationError),
    /// There are fewer buffers than parts.
    #[error("{parts} parts need as many buffers, there are {buffers}")]
    TooFewBuffers {
        /// The number of parts.
        parts: usize,
        /// The number of buffers.
        buffers: usize,
    },
}

/// Plans to split off the right part of a shard, with a matching hint for each part.
///
/// `buffers` receive the metadata of the two parts. The connector's bytes are copied to both.
pub fn plan_hinted_split_residual<'s>(
    parent: ShardSpecRef<'s>,
    cursor: CursorUpdate<'_>,
    boundary: &'s [u8],
    buffers: &'s mut [MetadataBuf; 2],
) -> Result<SplitResidualPlan<'s>, HintedSplitError> {
    let extra = decode_metadata(parent)?.connector_extra;
    plan_hinted_split_residual_with_extra(parent, cursor, boundary, [extra; 2], buffers)
}

/// Like [`plan_hinted_split_residual`], with new connector's bytes for the two parts.
pub fn plan_hinted_split_residual_with_extra<'s>(
    parent: ShardSpecRef<'s>,
    cursor: CursorUpdate<'_>,
    boundary: &'s [u8],
    extras: [&[u8]; 2],
    buffers: &'s mut [MetadataBuf; 2],
) -> Result<SplitResidualPlan<'s>, HintedSplitError> {
    let plan = plan_split_residual(parent, cursor, boundary)?;
    let ([of_narrowed, of_residual], [narrowed, residual]) = (extras, buffers);
    let narrowed = derive(parent, 0, plan.narrowed(), of_narrowed, narrowed)?;
    let residual = derive(parent, 1, plan.residual(), of_residual, residual)?;
    Ok(plan_split_residual_with_metadata(parent, cursor, boundary, narrowed, residual)?)
}

/// Plans to replace a shard by children split at `boundaries`, with a matching hint for each.
///
/// `buffers` receive the metadata, one per child. The connector's bytes are copied to all of them.
pub fn plan_hinted_split_replace<'s>(
    parent: ShardSpecRef<'s>,
    cursor: CursorUpdate<'s>,
    boundaries: &[&'s [u8]],
    buffers: &'s mut [MetadataBuf],
) -> Result<SplitReplacePlan<'s>, HintedSplitError> {
    let plan = plan_split_replace(parent, cursor, boundaries)?;
    let extra = decode_metadata(parent)?.connector_extra;
    let (parts, buffers_len) = (plan.children().len(), buffers.len());
    if buffers_len < parts {
        return Err(HintedSplitError::TooFewBuffers { parts, buffers: buffers_len });
    }
    let children = plan
        .children()
        .iter()
        .enumerate()
        .zip(buffers)
        .map(|((index, child), buffer)| {
            let metadata = derive(parent, index, child.spec, extra, buffer)?;
            let spec = child.spec.with_metadata(metadata);
            Ok(SplitChild { spec, cursor: child.cursor })
        })
        .collect::<Result<ArrayVec<_, MAX_SPLIT_CHILDREN>, HintedSplitError>>()?;
    Ok(plan_split_replace_with_children(parent, cursor, &children)?)
}

/// The metadata of a part: the parent's, with the hint narrowed to the part's range, and with these
/// connector's bytes. Metadata that stays the same is kept byte by byte.
fn derive<'s>(
    parent: ShardSpecRef<'s>,
    index: usize,
    part: ShardSpecRef<'_>,
    extra: &[u8],
    buffer: &'s mut MetadataBuf,
) -> Result<&'s [u8], HintedSplitError> {
    let ShardMetadata { hint, connector_extra } = decode_metadata(parent)?;
    let narrowed = propagate_hint_on_split(hint, part.start(), part.end())?;
    if narrowed == hint && extra == connector_extra {
        return Ok(parent.metadata());
    }
    let metadata = envelope(narrowed, extra, buffer)
        .map_err(|error| SplitValidationError::InvalidChildSpec { index, error })?;
    Ok(metadata)
}

/// Where a shard with a hint may be cut: between two rows of a manifest, and anywhere else.
impl ShardHint<'_> {
    /// The first key, not below `key`, at which a shard with this hint may be cut. `None` if there
    /// is no such key.
    pub fn cut_at<'b>(&self, key: &[u8], buf: &'b mut KeyBuf) -> Option<&'b [u8]> {
        match self {
            Self::Manifest { .. } => ManifestRowKey::first_from(key)?.encode_into(buf),
            Self::Range | Self::Prefix { .. } if key.len() > MAX_KEY_SIZE => return None,
            Self::Range | Self::Prefix { .. } => buf.copy_from_slice(key),
        }
        Some(buf.as_bytes())
    }

    /// The first key above `key` at which a shard with this hint may be cut. `None` if there is no
    /// such key. Cutting there separates `key` from everything after it.
    pub fn cut_after<'b>(&self, key: &[u8], buf: &'b mut KeyBuf) -> Option<&'b [u8]> {
        match self {
            Self::Manifest { .. } => ManifestRowKey::first_after(key)?.encode_into(buf),
            Self::Range | Self::Prefix { .. } => return key_successor(key, buf),
        }
        Some(buf.as_bytes())
    }

    /// Whether a shard with this hint may contain an item with this key. All items of a manifest
    /// are rows, so a cut between two rows separates any two items.
    #[must_use]
    pub const fn admits(&self, key: &[u8]) -> bool {
        match self {
            Self::Manifest { .. } => key.len() == ManifestRowKey::ENCODED_LEN,
            Self::Range | Self::Prefix { .. } => true,
        }
    }
}

/// One of the two bounds of a child's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBoundary {
    /// Its first key.
    Start,
    /// The first key after it.
    End,
}

impl fmt::Display for SplitBoundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::End => "end",
        })
    }
}

/// Why a child's range does not fit its parent's hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HintPropagationError {
    /// A bound lies outside the parent's prefix.
    #[error("the child's {boundary} lies outside the parent's prefix")]
    InvalidPrefixBoundary {
        /// The bound.
        boundary: SplitBoundary,
    },
    /// A bound is not a row key, or lies outside the parent's rows.
    #[error("the child's {boundary} is not a row of the parent")]
    InvalidManifestBoundary {
        /// The bound.
        boundary: SplitBoundary,
    },
    /// A bound is in another manifest.
    #[error("the child's bound is in manifest {child}, the parent's rows are in {parent}")]
    ManifestIdMismatch {
        /// The parent's manifest.
        parent: u64,
        /// The bound's manifest.
        child: u64,
    },
    /// The child would have no row.
    #[error("the child's row range {start_row}..{end_row} is empty or inverted")]
    EmptyManifestRange {
        /// First row.
        start_row: u64,
        /// First row after the last.
        end_row: u64,
    },
}

/// The hint of a child with the range `[child_start, child_end)` of a parent with `parent_hint`.
///
/// A range stays a range. A prefix becomes a range, because a part of a prefix is in general not a
/// prefix. Rows of a manifest stay rows.
pub fn propagate_hint_on_split(
    parent_hint: ShardHint<'_>,
    child_start: &[u8],
    child_end: &[u8],
) -> Result<ShardHint<'static>, HintPropagationError> {
    match parent_hint {
        ShardHint::Range => Ok(ShardHint::Range),
        ShardHint::Prefix { prefix } => {
            check_within_prefix(prefix, child_start, child_end)?;
            Ok(ShardHint::Range)
        }
        ShardHint::Manifest { manifest_id, start_row, end_row } => {
            let parent = RowRange { manifest_id, start_row, end_row };
            parent.narrow(child_start, child_end)
        }
    }
}

/// The keys from `prefix` up to its successor are exactly those that start with it.
fn check_within_prefix(
    prefix: &[u8],
    child_start: &[u8],
    child_end: &[u8],
) -> Result<(), HintPropagationError> {
    let outside = |boundary| Err(HintPropagationError::InvalidPrefixBoundary { boundary });
    // No key starts with a prefix that is longer than the maximum key.
    if prefix.len() > MAX_KEY_SIZE || !child_start.starts_with(prefix) {
        return outside(SplitBoundary::Start);
    }
    let ends_inside = child_end.starts_with(prefix) && child_end > child_start;
    let mut successor = KeyBuf::new();
    // Without a successor the prefix extends to the end of the keyspace, whose bound is empty.
    let prefix_end = prefix_successor(prefix, &mut successor).unwrap_or_default();
    if !ends_inside && child_end != prefix_end {
        return outside(SplitBoundary::End);
    }
    Ok(())
}

struct RowRange {
    manifest_id: u64,
    start_row: u64,
    end_row: u64,
}

impl RowRange {
    fn narrow(
        &self,
        child_start: &[u8],
        child_end: &[u8],
    ) -> Result<ShardHint<'static>, HintPropagationError> {
        let start_row = self.row(child_start, SplitBoundary::Start)?;
        let end_row = self.row(child_end, SplitBoundary::End)?;
        if start_row >= end_row {
            return Err(HintPropagationError::EmptyManifestRange { start_row, end_row });
        }
        Ok(ShardHint::Manifest { manifest_id: self.manifest_id, start_row, end_row })
    }

    /// The row of a bound. The row after the last is a valid bound.
    fn row(&self, key: &[u8], boundary: SplitBoundary) -> Result<u64, HintPropagationError> {
        let invalid = HintPropagationError::InvalidManifestBoundary { boundary };
        let ManifestRowKey { manifest_id, row } = decode_manifest_row_key(key).ok_or(invalid)?;
        if manifest_id != self.manifest_id {
            let (parent, child) = (self.manifest_id, manifest_id);
            return Err(HintPropagationError::ManifestIdMismatch { parent, child });
        }
        if row < self.start_row || row > self.end_row {
            return Err(invalid);
        }
        Ok(row)
    }
}
