use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::ShardId;
use shardwright_coordination::ShardRecord;

use super::ensure;
use crate::oracle::{Finding, Oracle};
use crate::workers::source::passed;

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "nothing is lost",
    "the result of every item that a committed cursor has passed is named by it, and every other \
     item lies in a shard that is not done",
);

/// Judges the results of one shard against its cursor.
pub(in crate::workers) fn judge_shard(shard: &ShardRecord, found: &[u64]) -> Result<(), Finding> {
    let passed = passed(shard);
    let missing: Vec<u64> = passed.clone().filter(|item| !found.contains(item)).collect();
    ensure(ORACLE, missing.is_empty(), || {
        let id = shard.head.key.shard;
        format!("shard {id} has passed {passed:?} and does not name {missing:?}")
    })
}

/// Judges that every item has a result or is still to be done.
pub(in crate::workers) fn judge_all(
    items: u64,
    found: &BTreeMap<u64, Vec<ShardId>>,
    left: &BTreeSet<u64>,
) -> Result<(), Finding> {
    let is_lost = |item: &u64| !found.contains_key(item) && !left.contains(item);
    let lost: Vec<u64> = (0..items).filter(is_lost).collect();
    ensure(ORACLE, lost.is_empty(), || format!("neither done nor left: {lost:?}"))
}
