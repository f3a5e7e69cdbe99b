//! Helpers for tests of services that run on a cluster.

use std::fmt::Write;

use shardwright_contracts::ShardId;

use crate::handover::Readiness;
use crate::sharding::{ShardOutOfRange, Sharding};

/// Number of shards of a test cluster: enough to spread, few enough to be fast.
pub const TEST_NUM_SHARDS: u32 = 64;

/// With this many tries per shard, one shard in 10^13 is missed.
const TRIES_PER_SHARD: u32 = 30;
const MIN_TRIES: u32 = 10_000;

/// Why there is no id for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectIdForShardError {
    /// The shard does not exist.
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
        /// The number of tried ids.
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

/// No checked state of the cluster was ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("none of {states} states was ready{}", match .last {
    Some(last) => format!("; in the last one {last}"),
    None => String::new(),
})]
pub struct NeverReady {
    /// The number of checked states.
    pub states: usize,
    /// What the last of them lacked, if there was one.
    pub last: Option<Readiness>,
}

/// Checks states of the cluster until one is ready: every shard is held by its target, and that is
/// a member. Returns the number of states before it.
///
/// The iterator decides how states are produced and how long that takes. A running cluster has its
/// own `wait_until_ready`.
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
    fn first_matching_id_is_found_for_any_shard_count() {
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
    fn unknown_shard_and_slash_in_prefix_are_refused() {
        let sharding = of(ShardHash::Fnv1a32, 64);
        let missing = object_id_for_shard(sharding, ShardId::from_raw(64), "x");
        assert!(matches!(missing, Err(ObjectIdForShardError::Shard(_))));
        let slash = object_id_for_shard(sharding, ShardId::from_raw(1), "a/b");
        assert_eq!(slash, Err(ObjectIdForShardError::PrefixWithSlash));
    }
}
