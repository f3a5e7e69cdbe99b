use std::fmt;

use shardwright_contracts::ShardId;

use crate::claim::ShardInfo;
use crate::shard_map::ShardMap;

/// Whether every shard is where it should be, and what is missing if not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Shards without a target.
    pub without_target: u32,
    /// Shards with a target that nobody holds.
    pub unclaimed: u32,
    /// Shards that another node holds than the one that should.
    pub elsewhere: u32,
    /// The first shard that is not where it should be.
    pub first: Option<ShardId>,
}

impl Readiness {
    /// Counts what a map lacks.
    #[must_use]
    pub fn of(map: &ShardMap) -> Self {
        let mut found = Self::default();
        for info in map.iter().filter(|info| !info.is_settled()) {
            found.first = found.first.or(Some(info.shard));
            let ShardInfo { target, current, .. } = info;
            match (target, current) {
                (None, _) => found.without_target += 1,
                (Some(_), None) => found.unclaimed += 1,
                (Some(_), Some(_)) => found.elsewhere += 1,
            }
        }
        found
    }

    /// Whether every shard's current node is its target.
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.first.is_none()
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { without_target, unclaimed, elsewhere, first } = self;
        let Some(first) = first else { return f.write_str("every shard is where it should be") };
        write!(
            f,
            "{without_target} shards have no target, {unclaimed} are not claimed and {elsewhere} \
             are on another node; the first is shard {}",
            first.as_raw()
        )
    }
}
