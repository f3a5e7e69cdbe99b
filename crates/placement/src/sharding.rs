use std::fmt;
use std::num::NonZeroU32;

use shardwright_contracts::ShardId;

use crate::hash::ShardHash;
use crate::limits::{DEFAULT_NUM_SHARDS, MAX_NUM_SHARDS};
use crate::object_id::{Home, ObjectIdRef};

/// How many shards a cluster has: at least one, and the same number for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardCount(NonZeroU32);

/// No cluster has that many shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a cluster has 1 to {MAX_NUM_SHARDS} shards, not {0}")]
pub struct ShardCountError(pub u32);

impl ShardCount {
    /// What a cluster has unless it is configured otherwise.
    pub const DEFAULT: Self = match NonZeroU32::new(DEFAULT_NUM_SHARDS) {
        Some(count) => Self(count),
        None => Self(NonZeroU32::MIN),
    };

    /// Checks a number of shards.
    pub const fn try_new(count: u32) -> Result<Self, ShardCountError> {
        match NonZeroU32::new(count) {
            Some(nonzero) if count <= MAX_NUM_SHARDS => Ok(Self(nonzero)),
            _ => Err(ShardCountError(count)),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }

    /// Every shard, in order.
    pub fn shards(self) -> impl DoubleEndedIterator<Item = ShardId> + ExactSizeIterator {
        (0..self.get()).map(|number| ShardId::from_raw(number.into()))
    }

    /// The place of a shard in a list of all, if the cluster has it.
    pub(crate) fn index(self, shard: ShardId) -> Result<usize, ShardOutOfRange> {
        if shard.as_raw() < u64::from(self.get()) {
            Ok(shard.as_raw() as usize)
        } else {
            Err(ShardOutOfRange { shard: shard.as_raw(), num_shards: self.get() })
        }
    }
}

impl Default for ShardCount {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The cluster has no such shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no shard {shard}, the cluster has {num_shards}")]
pub struct ShardOutOfRange {
    /// The shard that was asked for.
    pub shard: u64,
    /// How many there are.
    pub num_shards: u32,
}

/// How a cluster maps ids to shards. It is stored when the cluster is made and never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharding {
    /// What hashes ids.
    pub hash: ShardHash,
    /// How many shards there are.
    pub num_shards: ShardCount,
}

/// A process that sees the cluster differently must stay out: it would look for objects in shards
/// where they are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefused {
    /// It hashes differently.
    #[error("the cluster hashes ids by {}, this process by {}", .cluster.name(), .ours.name())]
    Hash {
        /// The cluster's.
        cluster: ShardHash,
        /// The process's.
        ours: ShardHash,
    },
    /// It counts differently.
    #[error("the cluster has {cluster} shards, this process expects {ours}")]
    NumShards {
        /// The cluster's.
        cluster: ShardCount,
        /// The process's.
        ours: ShardCount,
    },
}

impl Sharding {
    /// The shard of an object, or none if it lives on a node that its id names.
    #[inline]
    pub fn shard_of(self, id: ObjectIdRef<'_>) -> Result<Option<ShardId>, ShardOutOfRange> {
        match id.home() {
            Home::Hashed => Ok(Some(self.hashed(id.as_str()))),
            Home::Shard(shard) => self.num_shards.index(shard).map(|_| Some(shard)),
            Home::Node(_) => Ok(None),
        }
    }

    /// The shard that a text hashes to, whatever it looks like.
    #[must_use]
    #[inline]
    pub fn hashed(self, text: &str) -> ShardId {
        ShardId::from_raw(self.hash.place(text.as_bytes(), self.num_shards.get()).into())
    }

    /// Whether a process that works by `ours` may join a cluster that works by this.
    pub fn check_join(self, ours: Self) -> Result<(), JoinRefused> {
        if self.hash != ours.hash {
            return Err(JoinRefused::Hash { cluster: self.hash, ours: ours.hash });
        }
        if self.num_shards != ours.num_shards {
            let (cluster, ours) = (self.num_shards, ours.num_shards);
            return Err(JoinRefused::NumShards { cluster, ours });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u32) -> Sharding {
        let num_shards = ShardCount::try_new(count).unwrap();
        Sharding { num_shards, ..Sharding::default() }
    }

    fn shard(sharding: Sharding, id: &str) -> Result<Option<u64>, ShardOutOfRange> {
        let found = sharding.shard_of(ObjectIdRef::parse(id).unwrap())?;
        Ok(found.map(ShardId::as_raw))
    }

    #[test]
    fn a_cluster_has_at_least_one_shard_and_a_bounded_number() {
        assert_eq!(ShardCount::try_new(0), Err(ShardCountError(0)));
        assert!(ShardCount::try_new(1).is_ok() && ShardCount::try_new(MAX_NUM_SHARDS).is_ok());
        assert!(ShardCount::try_new(MAX_NUM_SHARDS + 1).is_err());
        assert_eq!(ShardCount::DEFAULT.get(), 8_192);
    }

    #[test]
    fn an_id_is_hashed_whole_or_names_its_shard_or_has_none() {
        assert_eq!(shard(of(8_192), "user-12345"), Ok(Some(1_392)));
        assert_eq!(shard(of(64), "shard#5/object-123"), Ok(Some(5)));
        assert_eq!(shard(of(64), "localhost:7001/client-123"), Ok(None));
    }

    #[test]
    fn a_named_shard_must_exist() {
        assert_eq!(shard(of(64), "shard#63/x"), Ok(Some(63)));
        let error = ShardOutOfRange { shard: 64, num_shards: 64 };
        assert_eq!(shard(of(64), "shard#64/x"), Err(error));
    }

    #[test]
    fn a_process_that_disagrees_may_not_join() {
        let cluster = of(64);
        assert_eq!(cluster.check_join(cluster), Ok(()));
        let other_hash = Sharding { hash: ShardHash::Avalanche64, ..cluster };
        assert!(matches!(cluster.check_join(other_hash), Err(JoinRefused::Hash { .. })));
        assert_eq!(
            cluster.check_join(of(65)).unwrap_err().to_string(),
            "the cluster has 64 shards, this process expects 65"
        );
    }
}
