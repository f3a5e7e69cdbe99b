//! What a shard counts: one, or what it bears.

use super::PlanInput;
use super::dense::{PerShard, ShardNo};

pub(super) enum Costs {
    /// Every shard counts one.
    Count,
    /// A shard counts what it bears and something for being there.
    Load(PerShard<u64>),
}

impl Costs {
    pub(super) fn new(input: &PlanInput<'_>) -> Self {
        let Some(loads) = input.loads else { return Self::Count };
        let count = input.map.num_shards().get();
        let loads = || loads.iter().copied().chain(std::iter::repeat(0)).take(count as usize);
        let total: u128 = loads().map(u128::from).sum();
        let mean = total as f64 / f64::from(count);
        // Also where nobody bears anything, a shard must count something.
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
