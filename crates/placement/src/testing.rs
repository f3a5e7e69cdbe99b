//! Helpers for tests of services that run on a cluster.

use std::fmt::Write;

use shardwright_contracts::ShardId;

use crate::handover::Readiness;
use crate::sharding::{ShardOutOfRange, Sharding};

/// How many shards a test's cluster has: enough to spread, few enough to be quick.
pub const TEST_NUM_SHARDS: u32 = 64;

/// A shard is missed by this many tries per shard of the cluster once in 10^13 cases.
const TRIES_PER_SHARD: u32 = 30;
const MIN_TRIES: u32 = 10_000;

/// Why there is no id for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectIdForShardError {
    /// The cluster has no such shard.
    #[error(transparent)]
    Shard(#[from] ShardOutOfRange),
    /// An id with a `/` is not hashed.
    #[error("the prefix of a hashed id has no slash")]
    PrefixWithSlash,
    /// No candidate hashed to the shard.
    #[error("none of {tries} ids hashes to shard {shard}")]
    NotFound {
        /// The shard.
        shard: u64,
        /// How many ids were tried.
        tries: u32,
    },
}

/// The first id `<prefix>-<shard>-<n>` that hashes to `shard`.
pub fn object_id_for_shard(
    sharding: Sharding,
    shard: ShardId,
    prefix: &str,
) -> Result<String, ObjectIdForShardError> {
    sharding.num_shards.index(shard)?;
    if prefix.contains('/') {
        return Err(ObjectIdForShardError::PrefixWithSlash);
    }
    let mut id = format!("{prefix}-{}-", shard.as_raw());
    let stem = id.len();
    let tries = MIN_TRIES.max(sharding.num_shards.get().saturating_mul(TRIES_PER_SHARD));
    for n in 0..tries {
        id.truncate(stem);
        // Writing to a string cannot fail.
        let _ = write!(id, "{n}");
        if sharding.hashed(&id) == shard {
            return Ok(id);
        }
    }
    Err(ObjectIdForShardError::NotFound { shard: shard.as_raw(), tries })
}

/// The cluster was not ready in any of the states that were looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of {states} states was ready{}", match .last {
    Some(last) => format!("; in the last one {last}"),
    None => String::new(),
})]
pub struct NeverReady {
    /// How many states were looked at.
    pub states: usize,
    /// What the last of them lacked, if there was one.
    pub last: Option<Readiness>,
}

/// Looks at one state of the cluster after the other until one is ready: every shard's current
/// node is its target, and a member. Returns how many were not.
///
/// How a state comes about, and how long that takes, is the iterator's business. A cluster that
/// runs has a `wait_until_ready` of its own.
pub fn wait_until_ready(states: impl IntoIterator<Item = Readiness>) -> Result<usize, NeverReady> {
    let mut last = None;
    let mut seen = 0;
    for readiness in states {
        if readiness.is_ready() {
            return Ok(seen);
        }
        last = Some(readiness);
        seen += 1;
    }
    Err(NeverReady { states: seen, last })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ShardCount, ShardHash};

    fn of(hash: ShardHash, count: u32) -> Sharding {
        Sharding { hash, num_shards: ShardCount::try_new(count).unwrap() }
    }

    #[test]
    fn every_shard_has_an_id() {
        for hash in ShardHash::ALL {
            for count in [1, TEST_NUM_SHARDS, 1_000] {
                let sharding = of(hash, count);
                for shard in sharding.num_shards.shards() {
                    let id = object_id_for_shard(sharding, shard, "TestObject").unwrap();
                    assert_eq!(sharding.hashed(&id), shard);
                    assert!(id.starts_with(&format!("TestObject-{}-", shard.as_raw())));
                }
            }
        }
    }

    #[test]
    fn the_first_fitting_id_is_found_however_many_shards_there_are() {
        let find = |shard, count| {
            let shard = ShardId::from_raw(shard);
            object_id_for_shard(of(ShardHash::Fnv1a32, count), shard, "TestObject").unwrap()
        };
        assert_eq!(find(10, 64), "TestObject-10-5");
        assert_eq!(find(0, 64), "TestObject-0-73");
        assert_eq!(find(8_191, 8_192), "TestObject-8191-8181");
        // Ten thousand tries would find only one in a hundred of these.
        assert!(find(999_999, 1_000_000).starts_with("TestObject-999999-"));
    }

    #[test]
    fn a_shard_that_is_not_there_and_a_prefix_with_a_slash_are_refused() {
        let sharding = of(ShardHash::Fnv1a32, 64);
        let missing = object_id_for_shard(sharding, ShardId::from_raw(64), "x");
        assert!(matches!(missing, Err(ObjectIdForShardError::Shard(_))));
        let slash = object_id_for_shard(sharding, ShardId::from_raw(1), "a/b");
        assert_eq!(slash, Err(ObjectIdForShardError::PrefixWithSlash));
    }
}
