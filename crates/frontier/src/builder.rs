//! Collects the initial shards of a run in preallocated memory.
//!
//! Shards are staged one by one, or by splitting a range. Each is checked by itself and stored in
//! the arena. Then [`PreallocShardBuilder::build_inputs`] checks all of them together and lends
//! them out for registration. A failure leaves the builder unchanged.

mod error;
mod split;

use std::fmt;

use arrayvec::ArrayVec;
use shardwright_contracts::limits::{MAX_BUILDER_CAPACITY, MAX_INITIAL_SHARDS};
use shardwright_contracts::{
    CursorUpdate, InitialShardInput, ShardArena, ShardId, ShardSpec, ShardSpecHandle, ShardSpecRef,
    validate_manifest,
};

pub use error::PreallocShardBuilderError;

use crate::hint::{ShardSpecScratch, manifest_shard_into, prefix_shard_into, range_shard_into};
use crate::key_encoding::store;

/// Stages up to `CAP` shards in a borrowed arena, without allocating.
///
/// Shards are numbered from 0 in the order of staging. Dropping the builder clears the arena. `CAP`
/// is at most 1,024, which bounds the builder's size:
///
/// ```compile_fail
/// use shardwright_contracts::ShardArena;
/// use shardwright_frontier::PreallocShardBuilder;
///
/// let mut arena = ShardArena::new(1, 1);
/// let builder = PreallocShardBuilder::<1025>::new(&mut arena, 1);
/// ```
pub struct PreallocShardBuilder<'a, const CAP: usize> {
    arena: &'a mut ShardArena,
    entries: ArrayVec<Entry<'a>, CAP>,
    entry_limit: usize,
    scratch: ShardSpecScratch,
}

#[derive(Clone, Copy)]
struct Entry<'a> {
    spec: ShardSpecHandle,
    cursor: CursorUpdate<'a>,
}

impl<'a, const CAP: usize> PreallocShardBuilder<'a, CAP> {
    /// A builder for at most `entry_limit` shards, which it stores in `arena`.
    pub fn new(
        arena: &'a mut ShardArena,
        entry_limit: usize,
    ) -> Result<Self, PreallocShardBuilderError> {
        const { assert!(CAP <= MAX_BUILDER_CAPACITY, "a builder holds at most 1,024 shards") };
        if entry_limit == 0 {
            return Err(PreallocShardBuilderError::EntryLimitZero);
        }
        if entry_limit > MAX_INITIAL_SHARDS {
            let max = MAX_INITIAL_SHARDS;
            return Err(PreallocShardBuilderError::EntryLimitExceedsManifestMax {
                entry_limit,
                max,
            });
        }
        if entry_limit > CAP {
            return Err(PreallocShardBuilderError::CapMismatch { entry_limit, cap: CAP });
        }
        let (entries, scratch) = (ArrayVec::new(), ShardSpecScratch::new());
        Ok(Self { arena, entries, entry_limit, scratch })
    }

    /// Stages the shard `[start, end)`.
    pub fn add_range(
        &mut self,
        start: &[u8],
        end: &[u8],
        connector_extra: &[u8],
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.add_range_with_cursor(start, end, connector_extra, CursorUpdate::initial())
    }

    /// Stages the shard `[start, end)` with an initial `cursor`.
    pub fn add_range_with_cursor(
        &mut self,
        start: &[u8],
        end: &[u8],
        connector_extra: &[u8],
        cursor: CursorUpdate<'a>,
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.check_room(1)?;
        let spec = range_shard_into(self.arena, start, end, connector_extra, &mut self.scratch)
            .map_err(PreallocShardBuilderError::from_range)?;
        Ok(self.stage(spec, cursor))
    }

    /// Stages the shard of all keys that start with `prefix`.
    pub fn add_prefix(
        &mut self,
        prefix: &[u8],
        connector_extra: &[u8],
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.add_prefix_with_cursor(prefix, connector_extra, CursorUpdate::initial())
    }

    /// Stages the shard of all keys that start with `prefix`, with an initial `cursor`.
    pub fn add_prefix_with_cursor(
        &mut self,
        prefix: &[u8],
        connector_extra: &[u8],
        cursor: CursorUpdate<'a>,
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.check_room(1)?;
        let spec = prefix_shard_into(self.arena, prefix, connector_extra, &mut self.scratch)
            .map_err(PreallocShardBuilderError::from_prefix)?;
        Ok(self.stage(spec, cursor))
    }

    /// Stages the rows from `start_row` up to, not including, `end_row` of one manifest.
    pub fn add_manifest(
        &mut self,
        manifest_id: u64,
        start_row: u64,
        end_row: u64,
        connector_extra: &[u8],
    ) -> Result<ShardId, PreallocShardBuilderError> {
        let cursor = CursorUpdate::initial();
        self.add_manifest_with_cursor(manifest_id, start_row, end_row, connector_extra, cursor)
    }

    /// Stages the rows from `start_row` up to, not including, `end_row` of one manifest, with an
    /// initial `cursor`.
    pub fn add_manifest_with_cursor(
        &mut self,
        manifest_id: u64,
        start_row: u64,
        end_row: u64,
        connector_extra: &[u8],
        cursor: CursorUpdate<'a>,
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.check_room(1)?;
        let (arena, scratch) = (&mut *self.arena, &mut self.scratch);
        let spec =
            manifest_shard_into(arena, manifest_id, start_row, end_row, connector_extra, scratch)
                .map_err(PreallocShardBuilderError::from_manifest)?;
        Ok(self.stage(spec, cursor))
    }

    /// Stages a copy of a spec.
    pub fn add_spec_ref(
        &mut self,
        spec: ShardSpecRef<'_>,
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.check_room(1)?;
        let spec = store(self.arena, ShardSpec::validate_ref(spec).map(|()| spec))
            .map_err(PreallocShardBuilderError::from_spec)?;
        Ok(self.stage(spec, CursorUpdate::initial()))
    }

    /// Stages a spec that was stored in the arena before the builder borrowed it.
    pub fn add_spec_handle(
        &mut self,
        spec: ShardSpecHandle,
    ) -> Result<ShardId, PreallocShardBuilderError> {
        self.check_room(1)?;
        if self.arena.get(spec).is_none() {
            return Err(PreallocShardBuilderError::InvalidSpecHandle);
        }
        Ok(self.stage(spec, CursorUpdate::initial()))
    }

    /// Checks the staged shards as a manifest and lends them out.
    pub fn build_inputs(&self) -> Result<Vec<InitialShardInput<'_>>, PreallocShardBuilderError> {
        let inputs = self
            .entries
            .iter()
            .zip(0..)
            .map(|(entry, id)| {
                let spec = self.arena.get(entry.spec)?;
                Some(InitialShardInput { shard: ShardId::from_raw(id), spec, cursor: entry.cursor })
            })
            .collect::<Option<Vec<_>>>()
            .ok_or(PreallocShardBuilderError::InvalidSpecHandle)?;
        validate_manifest(&inputs)?;
        Ok(inputs)
    }

    /// The number of staged shards.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no shard is staged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all staged shards, clears the arena and restarts at shard 0.
    pub fn reset(&mut self) {
        self.entries.clear();
        self.arena.clear();
    }

    fn check_room(&self, additional: usize) -> Result<(), PreallocShardBuilderError> {
        let (limit, current) = (self.entry_limit, self.entries.len());
        if additional > limit - current {
            let error = PreallocShardBuilderError::CapacityExceeded { limit, current, additional };
            return Err(error);
        }
        Ok(())
    }

    /// Appends an entry. The caller has checked the room.
    fn stage(&mut self, spec: ShardSpecHandle, cursor: CursorUpdate<'a>) -> ShardId {
        let id = ShardId::from_raw(self.entries.len() as u64);
        self.entries.push(Entry { spec, cursor });
        id
    }
}

impl<const CAP: usize> Drop for PreallocShardBuilder<'_, CAP> {
    fn drop(&mut self) {
        self.arena.clear();
    }
}

impl<const CAP: usize> fmt::Debug for PreallocShardBuilder<'_, CAP> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreallocShardBuilder")
            .field("staged", &self.entries.len())
            .field("entry_limit", &self.entry_limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
