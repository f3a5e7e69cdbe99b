use super::ensure;
use crate::oracle::{Finding, Oracle};

pub(in crate::workers) const ORACLE: &Oracle = &Oracle::of_the_world(
    "stragglers are split",
    "where all work is in one shard and workers are idle, the shard is split and more than one \
     worker works on it",
);

/// Judges how many shards and workers the work was shared by.
pub(in crate::workers) fn judge(shards: usize, workers: usize) -> Result<(), Finding> {
    ensure(ORACLE, shards > 1 && workers > 1, || {
        format!("{workers} workers shared the work in {shards} shards")
    })
}
