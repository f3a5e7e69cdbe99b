//! Targets: the leader's decisions, all under one version.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::flags::Flags;
use crate::limits::{MAX_TARGET_CHUNKS, MIN_TARGET_CHUNK_SHARDS};
use crate::sharding::{ShardCount, ShardOutOfRange};

/// The version of all targets together. Each write of the leader makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetVersion(u64);

impl TargetVersion {
    /// No write yet.
    pub const NONE: Self = Self(0);

    /// Wraps a raw number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw number.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// The next version. At one write per nanosecond the numbers last five centuries.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for TargetVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// When a shard got its target, and whether it had another one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetSince {
    /// Unknown. It counts from the time when the leader started to follow the cluster, or from the
    /// last membership change.
    #[default]
    Unknown,
    /// The time of its first target.
    Placed(LogicalTime),
    /// The time of its last move.
    Moved(LogicalTime),
}

impl TargetSince {
    /// The time, if known.
    #[must_use]
    pub const fn time(self) -> Option<LogicalTime> {
        match self {
            Self::Unknown => None,
            Self::Placed(time) | Self::Moved(time) => Some(time),
        }
    }
}

/// The target of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The node, if one was chosen.
    pub node: Option<NodeAddress>,
    /// Its flags.
    pub flags: Flags,
    /// When it was chosen.
    pub since: TargetSince,
}

/// The state of all targets together. A new leader continues from it, so a change of leaders
/// changes no decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetHeader {
    /// The version.
    pub version: TargetVersion,
    /// Whether the cluster is frozen: no voluntary moves.
    pub frozen: bool,
    /// Whether a rebalance by number is in progress.
    pub spreading: bool,
    /// Whether a rebalance by load is in progress.
    pub shedding: bool,
}

/// A shard's new target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChange {
    /// The shard.
    pub shard: ShardId,
    /// Its new target.
    pub target: Target,
}

/// One write of the leader. It applies only to the version before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUpdate {
    /// The new header, with the version of this write.
    pub header: TargetHeader,
    /// The shards that change, each once.
    pub changes: Vec<TargetChange>,
}

/// The assignment of shards to chunks. It depends only on the number of shards.
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

    /// The number of chunks.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.num_shards.get().div_ceil(self.chunk_shards)
    }

    /// The chunk of a shard.
    pub fn chunk_of(self, shard: ShardId) -> Result<u32, ShardOutOfRange> {
        let index = self.num_shards.index(shard)? as u32;
        Ok(index / self.chunk_shards)
    }

    /// The shards of a chunk, or none if the chunk does not exist.
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
    fn chunks_contain_every_shard_once() {
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
    fn update_changes_the_chunks_of_its_shards() {
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
