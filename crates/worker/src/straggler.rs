//! Which shards are worth splitting.

use shardwright_contracts::{LogicalTime, ShardId};
use shardwright_coordination::HeldEstimate;

/// The shards that are worth splitting, the one that will take longest first.
///
/// The age of an estimate is subtracted from it. Shards without an estimate of the time left come
/// last, since they may be nearly done.
pub(crate) fn worth_splitting(
    estimates: &[HeldEstimate],
    now: LogicalTime,
    least_left_ms: u64,
) -> Vec<ShardId> {
    let left = |held: &HeldEstimate| {
        let age = now.millis_since(held.at);
        held.estimate.left_ms.map(|left| left.saturating_sub(age))
    };
    let mut worth: Vec<(Option<u64>, ShardId)> = estimates
        .iter()
        .filter(|held| !held.estimate.is_indivisible)
        .map(|held| (left(held), held.shard))
        .filter(|(left, _)| left.is_none_or(|left| left >= least_left_ms))
        .collect();
    worth.sort_by(|a, b| b.cmp(a));
    worth.into_iter().map(|(_, shard)| shard).collect()
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{FenceEpoch, WorkerId};
    use shardwright_coordination::WorkEstimate;

    use super::*;

    fn held(shard: u64, at: u64, left_ms: Option<u64>) -> HeldEstimate {
        HeldEstimate {
            shard: ShardId::from_raw(shard),
            fence: FenceEpoch::INITIAL,
            holder: WorkerId::from_raw(shard),
            at: LogicalTime::from_millis(at),
            estimate: WorkEstimate { left_ms, ..WorkEstimate::default() },
        }
    }

    #[test]
    fn the_shard_that_will_take_longest_comes_first() {
        let one_item =
            WorkEstimate { left_ms: Some(90_000), is_indivisible: true, ..WorkEstimate::default() };
        let estimates = [
            held(1, 1_000, Some(3_000)),
            held(2, 1_900, Some(2_500)), // Ends later than the first.
            held(3, 2_000, None),
            held(4, 1_000, Some(1_050)), // Nearly done.
            HeldEstimate { estimate: one_item, ..held(5, 2_000, None) },
        ];
        let now = LogicalTime::from_millis(2_000);
        let worth = worth_splitting(&estimates, now, 200);
        assert_eq!(worth, [2, 1, 3].map(ShardId::from_raw));
    }
}
