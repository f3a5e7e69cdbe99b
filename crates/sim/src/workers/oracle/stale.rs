use shardwright_coordination::ShardRecord;
use shardwright_worker::extent::{Extent, TokenEnvelope};

use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "stale results never count",
    "a cursor comes to name an extent, or more of one, only under the fence that holds the shard",
);

/// Judges what a commit added to the results of a shard.
pub(in crate::workers) fn judge(
    before: &ShardRecord,
    named: &TokenEnvelope,
    names: &TokenEnvelope,
) -> Result<(), Finding> {
    let current = before.head.fence;
    let is_new = |extent: &&Extent| !named.extents.contains(extent);
    let mut added = names.extents.iter().filter(is_new);
    let stale = added.find(|extent| extent.fence != current);
    ensure(ORACLE, stale.is_none(), || {
        format!("shard {} is held under {current:?}: {stale:?}", before.head.key.shard)
    })
}
