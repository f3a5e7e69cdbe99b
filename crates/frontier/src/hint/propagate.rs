use std::fmt;

use shardwright_contracts::limits::MAX_KEY_SIZE;

use super::ShardHint;
use crate::key_encoding::{KeyBuf, ManifestRowKey, decode_manifest_row_key, prefix_successor};

/// One of the two bounds of a child's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBoundary {
    /// Its first key.
    Start,
    /// The first key behind it.
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
        /// Which one.
        boundary: SplitBoundary,
    },
    /// A bound is no row key, or lies outside the parent's rows.
    #[error("the child's {boundary} is no row of the parent's")]
    InvalidManifestBoundary {
        /// Which one.
        boundary: SplitBoundary,
    },
    /// A bound belongs to another manifest.
    #[error("the child's bound is of manifest {child}, the parent's rows of {parent}")]
    ManifestIdMismatch {
        /// The parent's manifest.
        parent: u64,
        /// The bound's manifest.
        child: u64,
    },
    /// The child would hold no row.
    #[error("the child's row range {start_row}..{end_row} is empty or inverted")]
    EmptyManifestRange {
        /// First row.
        start_row: u64,
        /// First row behind the last.
        end_row: u64,
    },
}

/// The hint of a child with the range `[child_start, child_end)` of a parent with `parent_hint`.
///
/// A range stays a range, whatever the bounds. A prefix becomes a range, because a part of a
/// prefix is in general no prefix. Rows of a manifest stay rows, and become fewer.
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

/// The keys from `prefix` up to its successor are just those that start with it.
fn check_within_prefix(
    prefix: &[u8],
    child_start: &[u8],
    child_end: &[u8],
) -> Result<(), HintPropagationError> {
    let outside = |boundary| Err(HintPropagationError::InvalidPrefixBoundary { boundary });
    // No key can start with a prefix that is longer than a key may be.
    if prefix.len() > MAX_KEY_SIZE || !child_start.starts_with(prefix) {
        return outside(SplitBoundary::Start);
    }
    let ends_inside = child_end.starts_with(prefix) && child_end > child_start;
    let mut successor = KeyBuf::new();
    // Without a successor the prefix reaches to the end of the keyspace, whose bound is empty.
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

    /// The row that a bound names; the row behind the last is a fine bound.
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
