use std::sync::{Arc, OnceLock};

use shardwright_contracts::ShardId;
use shardwright_placement::{ShardCount, ShardOutOfRange};

/// A value for each shard, created on first use: a node holds few of many shards.
pub(crate) struct PerShard<T> {
    each: Box<[OnceLock<Arc<T>>]>,
}

impl<T: Default> PerShard<T> {
    pub(crate) fn new(num_shards: ShardCount) -> Self {
        Self { each: num_shards.shards().map(|_| OnceLock::new()).collect() }
    }

    /// The value of a shard.
    pub(crate) fn get(&self, shard: ShardId) -> Result<&Arc<T>, ShardOutOfRange> {
        let at = usize::try_from(shard.as_raw()).ok().and_then(|at| self.each.get(at));
        at.map(|one| one.get_or_init(Arc::default)).ok_or_else(|| ShardOutOfRange {
            shard: shard.as_raw(),
            num_shards: u32::try_from(self.each.len()).unwrap_or(u32::MAX),
        })
    }

    /// All created values, by shard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ShardId, &Arc<T>)> {
        let numbered = self.each.iter().zip(0_u64..);
        numbered.filter_map(|(one, raw)| Some((ShardId::from_raw(raw), one.get()?)))
    }
}
