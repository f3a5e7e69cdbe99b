//! How targets are divided for storing: into a few chunks that one request can write together.

use std::collections::BTreeSet;
use std::ops::Range;

use shardwright_contracts::ShardId;

use crate::limits::{MAX_TARGET_CHUNKS, MIN_TARGET_CHUNK_SHARDS};
use crate::sharding::{ShardCount, ShardOutOfRange};
use crate::target::TargetUpdate;

/// Which shards lie in which chunk. It follows from the number of shards and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetChunks {
    num_shards: ShardCount,
    chunk_shards: u32,
}

impl TargetChunks {
    /// The chunks of a cluster.
    #[must_use]
    pub fn of(num_shards: ShardCount) -> Self {
        let fair = num_shards.get().div_ceil(MAX_TARGET_CHUNKS);
        Self { num_shards, chunk_shards: fair.max(MIN_TARGET_CHUNK_SHARDS) }
    }

    /// How many chunks there are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.num_shards.get().div_ceil(self.chunk_shards)
    }

    /// The chunk that a shard lies in.
    pub fn chunk_of(self, shard: ShardId) -> Result<u32, ShardOutOfRange> {
        let index = self.num_shards.index(shard)? as u32;
        Ok(index / self.chunk_shards)
    }

    /// The numbers of the shards in a chunk; none if there is no such chunk.
    #[must_use]
    pub fn shards(self, chunk: u32) -> Range<u32> {
        let start = chunk.saturating_mul(self.chunk_shards).min(self.num_shards.get());
        start..start.saturating_add(self.chunk_shards).min(self.num_shards.get())
    }

    /// The chunks that an update changes.
    pub fn changed_by(self, update: &TargetUpdate) -> Result<BTreeSet<u32>, ShardOutOfRange> {
        update.changes.iter().map(|change| self.chunk_of(change.shard)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_NUM_SHARDS;
    use crate::target::{Target, TargetChange, TargetHeader};

    fn chunks(count: u32) -> TargetChunks {
        TargetChunks::of(ShardCount::try_new(count).unwrap())
    }

    #[test]
    fn chunks_hold_every_shard_once_and_are_few() {
        for count in [1, 64, 127, 128, 129, 8_191, 8_192, 8_193, 1_000_000] {
            let chunks = chunks(count);
            assert!((1..=64).contains(&chunks.count()), "{count}");
            let mut next = 0;
            for chunk in 0..chunks.count() {
                let shards = chunks.shards(chunk);
                assert_eq!(shards.start, next);
                assert!(!shards.is_empty());
                for shard in [shards.start, shards.end - 1] {
                    assert_eq!(chunks.chunk_of(ShardId::from_raw(shard.into())), Ok(chunk));
                }
                next = shards.end;
            }
            assert_eq!(next, count);
            assert!(chunks.shards(chunks.count()).is_empty());
        }
        assert_eq!((chunks(8_192).count(), chunks(64).count()), (64, 1));
        assert_eq!(chunks(MAX_NUM_SHARDS).count(), 64);
    }

    #[test]
    fn an_update_changes_the_chunks_of_its_shards() {
        let change =
            |shard| TargetChange { shard: ShardId::from_raw(shard), target: Target::default() };
        let header = TargetHeader::default();
        let update = TargetUpdate { header, changes: vec![change(0), change(127), change(300)] };
        assert_eq!(
            chunks(8_192).changed_by(&update).unwrap().into_iter().collect::<Vec<_>>(),
            [0, 2]
        );
        let beyond = TargetUpdate { header, changes: vec![change(8_192)] };
        assert!(chunks(8_192).changed_by(&beyond).is_err());
    }
}
