use std::fmt;

use shardwright_contracts::ShardId;

use crate::member::Membership;
use crate::shard_map::ShardMap;

/// Whether every shard is where it should be, and what is missing if not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Shards without a target.
    pub without_target: u32,
    /// Shards with a target that no member holds. Whoever had claimed them may be gone.
    pub unclaimed: u32,
    /// Shards that another node holds than the one that should.
    pub elsewhere: u32,
    /// The first shard that is not where it should be.
    pub first: Option<ShardId>,
}

impl Readiness {
    /// Counts what a map lacks. A node that is no member holds nothing, whatever it had claimed.
    #[must_use]
    pub fn of(map: &ShardMap, members: &Membership) -> Self {
        let mut found = Self::default();
        for info in map.iter().filter(|info| !info.is_settled(members)) {
            found.first = found.first.or(Some(info.shard));
            match (info.target, info.owner(members)) {
                (None, _) => found.without_target += 1,
                (Some(_), None) => found.unclaimed += 1,
                (Some(_), Some(_)) => found.elsewhere += 1,
            }
        }
        found
    }

    /// Whether every shard's current node is its target, and there.
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
