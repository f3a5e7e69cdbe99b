use shardwright_contracts::ShardId;
use shardwright_placement::Claim;

use super::ensure;
use crate::clusters::truth::Truth;
use crate::oracle::{Finding, Oracle};

pub(in crate::clusters) const ORACLE: &Oracle = &Oracle::of_the_world(
    "claims",
    "a shard is claimed by a member, from nobody or from one that is no member any more, and under \
     a higher fence; whoever releases it had it, and whoever keeps it changes nothing",
);

/// Judges a claim or a release by what was stored before.
pub(in crate::clusters) fn judge(
    truth: &Truth,
    shard: ShardId,
    after: &Claim,
) -> Result<(), Finding> {
    let before = truth.claims.get(&shard);
    let fence = before.map(|before| before.fence);
    let Some(claimer) = &after.holder else {
        let had = before.is_some_and(|before| before.holder.is_some());
        return ensure(ORACLE, had && fence == Some(after.fence), || {
            format!("shard {shard} was released by {after:?}, and before it was {before:?}")
        });
    };
    ensure(ORACLE, truth.is_live(claimer), || {
        format!("shard {shard} was claimed by {claimer:?}, which is no member")
    })?;
    if before == Some(after) {
        return Ok(());
    }
    let held_by = truth.holder(shard);
    ensure(ORACLE, held_by.is_none(), || {
        format!("shard {shard} was claimed by {claimer:?} though {held_by:?} has it")
    })?;
    ensure(ORACLE, fence.is_none_or(|fence| fence < after.fence), || {
        format!("shard {shard} was claimed under fence {}, after {fence:?}", after.fence)
    })
}
