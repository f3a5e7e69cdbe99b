//! The share of each node.

use super::PlanInput;
use super::dense::{PerShard, ShardNo};

/// The part of a node that its share depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Portion {
    /// Its weight, not zero.
    pub(super) weight: u32,
    /// Shards or load on the node now.
    pub(super) has: u128,
    /// The part that is pinned and cannot move.
    pub(super) fixed: u128,
}

/// The share of each node in `total`, as integers that add up to it.
///
/// A node whose fixed part exceeds its share keeps exactly that, and the others divide the rest.
/// Each of them gets its exact share rounded down or up. Nodes that would have to give a shard away
/// are rounded up first, so nothing moves without need.
pub(super) fn quotas(portions: &[Portion], total: u128) -> Vec<Quota> {
    let (mut left, mut weight, beyond) = without_beyond(portions, total);
    if weight == 0 {
        (left, weight) = (0, 1);
    }
    let mut quotas: Vec<Quota> = portions
        .iter()
        .zip(&beyond)
        .map(|(portion, beyond)| Quota {
            pieces: if *beyond {
                portion.fixed
            } else {
                left * u128::from(portion.weight) / weight
            },
            beyond: *beyond,
        })
        .collect();
    let down: u128 = quotas.iter().filter(|quota| !quota.beyond).map(|quota| quota.pieces).sum();
    let mut candidates: Vec<_> = portions
        .iter()
        .zip(&quotas)
        .enumerate()
        .filter(|(_, (_, quota))| !quota.beyond)
        .map(|(index, (portion, quota))| {
            let part = left * u128::from(portion.weight) % weight;
            (portion.has <= quota.pieces, std::cmp::Reverse(part), index)
        })
        // An integral share is not rounded.
        .filter(|(_, part, _)| part.0 > 0)
        .collect();
    candidates.sort_unstable();
    let missing = usize::try_from(left.saturating_sub(down)).unwrap_or(usize::MAX);
    for (_, _, index) in candidates.into_iter().take(missing) {
        if let Some(quota) = quotas.get_mut(index) {
            quota.pieces += 1;
        }
    }
    quotas
}

/// The share of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    pub(super) pieces: u128,
    /// Whether the fixed part exceeds the fair share.
    pub(super) beyond: bool,
}

/// Removes nodes whose fixed part exceeds their share. Returns the rest, its weight, and which
/// nodes were removed.
fn without_beyond(portions: &[Portion], total: u128) -> (u128, u128, Vec<bool>) {
    let mut left = total;
    let mut weight: u128 = portions.iter().map(|portion| u128::from(portion.weight)).sum();
    let mut beyond = vec![false; portions.len()];
    let mut order: Vec<usize> = (0..portions.len()).collect();
    // The most crowded first. Each removed node leaves less for the others, so the next may exceed
    // its share too. Earlier ones cannot become less crowded.
    order.sort_by(|one, other| {
        let crowd = |index: &usize, rival: &usize| {
            let own = portions.get(*index).map_or(0, |portion| portion.fixed);
            own * portions.get(*rival).map_or(1, |portion| u128::from(portion.weight))
        };
        crowd(other, one).cmp(&crowd(one, other))
    });
    for index in order {
        let Some(portion) = portions.get(index) else { break };
        if portion.fixed * weight <= left * u128::from(portion.weight) {
            break;
        }
        left = left.saturating_sub(portion.fixed);
        weight -= u128::from(portion.weight);
        if let Some(flag) = beyond.get_mut(index) {
            *flag = true;
        }
    }
    (left, weight, beyond)
}

/// The cost of a shard: one, or its load.
pub(super) enum Costs {
    /// Every shard counts one.
    Count,
    /// A shard costs its load plus a minimum.
    Load(PerShard<u64>),
}

impl Costs {
    pub(super) fn new(input: &PlanInput<'_>) -> Self {
        let Some(loads) = input.loads else { return Self::Count };
        let count = input.map.num_shards().get();
        let loads = || loads.iter().copied().chain(std::iter::repeat(0)).take(count as usize);
        let total: u128 = loads().map(u128::from).sum();
        let mean = total as f64 / f64::from(count);
        // A shard has a minimum cost even without load.
        let reserve = ((mean * input.config.load.reserve) as u64).max(1);
        Self::Load(loads().map(|load| load.saturating_add(reserve)).collect())
    }

    pub(super) fn of(&self, shard: ShardNo) -> u128 {
        match self {
            Self::Count => 1,
            Self::Load(costs) => costs[shard].into(),
        }
    }

    pub(super) const fn are_loads(&self) -> bool {
        matches!(self, Self::Load(_))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(portions: &[(u32, u128, u128)], total: u128) -> Vec<u128> {
        let portions: Vec<_> =
            portions.iter().map(|&(weight, has, fixed)| Portion { weight, has, fixed }).collect();
        quotas(&portions, total).into_iter().map(|quota| quota.pieces).collect()
    }

    #[test]
    fn equal_nodes_get_equal_shares() {
        assert_eq!(pieces(&[(1, 0, 0), (1, 0, 0), (1, 0, 0)], 8), [3, 3, 2]);
    }

    #[test]
    fn remainder_stays_with_its_nodes() {
        assert_eq!(pieces(&[(1, 2, 0), (1, 3, 0), (1, 3, 0)], 8), [2, 3, 3]);
    }

    #[test]
    fn heavier_nodes_get_larger_quotas() {
        assert_eq!(pieces(&[(1, 0, 0), (3, 0, 0)], 8), [2, 6]);
        assert_eq!(pieces(&[(1, 0, 0), (2, 0, 0)], 8), [3, 5]);
    }

    #[test]
    fn node_full_of_pins_keeps_them() {
        assert_eq!(pieces(&[(1, 6, 6), (1, 1, 0), (1, 1, 1)], 9), [6, 2, 1]);
    }

    proptest! {
        #[test]
        fn quotas_add_up_to_the_total(
            portions in prop::collection::vec((1..5_u32, 0..30_u128, 0..30_u128), 1..12),
            free in 0..100_u128,
        ) {
            let portions: Vec<_> = portions
                .into_iter()
                .map(|(weight, free, fixed)| Portion { weight, has: fixed + free, fixed })
                .collect();
            let total = free + portions.iter().map(|portion| portion.fixed).sum::<u128>();
            let quotas = quotas(&portions, total);
            prop_assert_eq!(quotas.iter().map(|quota| quota.pieces).sum::<u128>(), total);
            let sharing = || portions.iter().zip(&quotas).filter(|(_, quota)| !quota.beyond);
            let left: u128 = sharing().map(|(_, quota)| quota.pieces).sum();
            let weight: u128 = sharing().map(|(portion, _)| u128::from(portion.weight)).sum();
            for (portion, quota) in portions.iter().zip(&quotas) {
                prop_assert!(quota.pieces >= portion.fixed);
                if quota.beyond {
                    prop_assert_eq!(quota.pieces, portion.fixed);
                } else {
                    let exact = left * u128::from(portion.weight);
                    prop_assert!(quota.pieces >= exact / weight);
                    prop_assert!(quota.pieces <= exact.div_ceil(weight));
                }
            }
        }
    }
}
