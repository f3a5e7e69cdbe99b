//! Staging many shards at once by splitting a range. All of them are staged, or none.

use shardwright_contracts::limits::MAX_SPLIT_CHILDREN;
use shardwright_contracts::{CursorUpdate, ShardSpecInputError};

use super::{PreallocShardBuilder, PreallocShardBuilderError};
use crate::hint::{manifest_shard_ref, range_shard_ref};

impl<const CAP: usize> PreallocShardBuilder<'_, CAP> {
    /// Splits `[start, end)` at `split_points`, given in key order, and stages the parts. Returns
    /// their number.
    pub fn split_range_by_boundaries(
        &mut self,
        start: &[u8],
        split_points: &[&[u8]],
        end: &[u8],
        connector_extra: &[u8],
    ) -> Result<usize, PreallocShardBuilderError> {
        let pieces = split_points.len().saturating_add(1);
        self.check_fan_out(pieces)?;
        let starts = || std::iter::once(start).chain(split_points.iter().copied());
        let ends = || split_points.iter().copied().chain(std::iter::once(end));
        for (start, end) in starts().zip(ends()) {
            range_shard_ref(start, end, connector_extra, &mut self.scratch)
                .map_err(PreallocShardBuilderError::RangeInvalid)?;
        }
        // An empty bound means the end of the keyspace, so it cannot separate two parts.
        if split_points.iter().any(|point| point.is_empty()) {
            let (start_len, end_len) = (start.len(), 0);
            let inverted = ShardSpecInputError::InvertedRange { start_len, end_len };
            return Err(PreallocShardBuilderError::RangeInvalid(inverted));
        }
        self.stage_all(starts().zip(ends()), |builder, (start, end)| {
            builder.add_range(start, end, connector_extra)
        })?;
        Ok(pieces)
    }

    /// Splits the rows from `start_row` up to, not including, `end_row` into parts of
    /// `rows_per_shard` and stages them. The last may be shorter. Returns their number.
    pub fn split_manifest_by_rows(
        &mut self,
        manifest_id: u64,
        start_row: u64,
        end_row: u64,
        rows_per_shard: u64,
        connector_extra: &[u8],
    ) -> Result<usize, PreallocShardBuilderError> {
        // An invalid part implies that the whole or the first part is invalid: a part without rows
        // is an empty range.
        let first_end = start_row.saturating_add(rows_per_shard).min(end_row);
        for end in [end_row, first_end] {
            let scratch = &mut self.scratch;
            manifest_shard_ref(manifest_id, start_row, end, connector_extra, scratch)
                .map_err(PreallocShardBuilderError::ManifestCtorInvalid)?;
        }
        let pieces = (end_row - start_row).div_ceil(rows_per_shard);
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX);
        self.check_fan_out(pieces)?;
        let starts = std::iter::successors(Some(start_row), |row| row.checked_add(rows_per_shard));
        self.stage_all(starts.take(pieces), |builder, row| {
            let end = row.saturating_add(rows_per_shard).min(end_row);
            let cursor = CursorUpdate::initial();
            builder.add_manifest_with_cursor(manifest_id, row, end, connector_extra, cursor)
        })?;
        Ok(pieces)
    }

    fn check_fan_out(&self, requested: usize) -> Result<(), PreallocShardBuilderError> {
        if requested > MAX_SPLIT_CHILDREN {
            let limit = MAX_SPLIT_CHILDREN;
            return Err(PreallocShardBuilderError::FanOutExceeded { limit, requested });
        }
        self.check_room(requested)
    }

    /// Stages every part. If the arena fills up, removes the parts staged so far.
    fn stage_all<P, T>(
        &mut self,
        mut pieces: impl Iterator<Item = P>,
        mut add: impl FnMut(&mut Self, P) -> Result<T, PreallocShardBuilderError>,
    ) -> Result<(), PreallocShardBuilderError> {
        let staged_before = self.entries.len();
        let outcome = pieces.try_for_each(|piece| add(self, piece).map(drop));
        if outcome.is_err() {
            for entry in self.entries.drain(staged_before..) {
                self.arena.free(entry.spec);
            }
        }
        outcome
    }
}
