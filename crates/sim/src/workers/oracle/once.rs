use std::collections::BTreeMap;

use shardwright_contracts::ShardId;
use shardwright_coordination::ShardRecord;

use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::source::passed;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "results count once",
    "committed cursors name the result of an item at most once, and of no item that they have not \
     passed",
);

/// Judges the results of one shard against its cursor.
pub(in crate::workers) fn judge_shard(shard: &ShardRecord, found: &[u64]) -> Result<(), Finding> {
    let (id, passed) = (shard.head.key.shard, passed(shard));
    let is_rising = found.array_windows().all(|[one, other]| one < other);
    ensure(ORACLE, is_rising, || format!("shard {id} names twice or out of order: {found:?}"))?;
    let beyond: Vec<&u64> = found.iter().filter(|item| !passed.contains(item)).collect();
    ensure(ORACLE, beyond.is_empty(), || {
        format!("shard {id} has passed {passed:?} and names {beyond:?} as well")
    })
}

/// Judges the results of all shards together.
pub(in crate::workers) fn judge_all(found: &BTreeMap<u64, Vec<ShardId>>) -> Result<(), Finding> {
    let twice = found.iter().find(|(_, shards)| shards.len() > 1);
    ensure(ORACLE, twice.is_none(), || format!("named by several shards: {twice:?}"))
}
