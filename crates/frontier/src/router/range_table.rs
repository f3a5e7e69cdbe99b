use std::{fmt, iter, sync::Arc};

use shardwright_contracts::ShardId;

use super::{EntityIdRange, RouterError, search_tree::SearchTree};

/// A checked list of ranges that together own every id exactly once.
///
/// A clone shares the storage of the original.
#[derive(Clone)]
pub struct RangeTable {
    tree: Arc<SearchTree>,
}

impl RangeTable {
    /// Checks `ranges` in the order that [`ShardRouter::range`](super::ShardRouter::range)
    /// documents, and builds the lookup tree.
    pub(super) fn new(mut ranges: Vec<(ShardId, EntityIdRange)>) -> Result<Self, RouterError> {
        // Sorting by every field makes the reported error independent of the order of the list.
        ranges.sort_unstable_by_key(|&(shard, range)| (range.start, range.end, shard));
        let lasts = check_tiling(&ranges)?;
        let shards: Vec<ShardId> = ranges.into_iter().map(|(shard, _)| shard).collect();
        check_unique(&shards)?;
        Ok(Self { tree: Arc::new(SearchTree::new(&lasts, &shards)) })
    }

    /// The ranges and their owners, in the order of their ids.
    pub fn ranges(&self) -> impl Iterator<Item = (ShardId, EntityIdRange)> {
        let mut first = 0;
        self.tree.entries().map(move |(last, shard)| {
            let range = EntityIdRange::through(first, last);
            first = range.end;
            (shard, range)
        })
    }

    /// The owner of `id`.
    ///
    /// Not inlined, so that the search does not slow down other strategies.
    #[inline(never)]
    pub(super) fn shard_of(&self, id: u64) -> ShardId {
        self.tree.shard_of(id)
    }
}

/// Shows only the size, because a table may have a million ranges.
impl fmt::Debug for RangeTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeTable({} ranges)", self.tree.len())
    }
}

/// Checks that the sorted ranges tile all ids, and returns the last id of each.
fn check_tiling(ranges: &[(ShardId, EntityIdRange)]) -> Result<Vec<u64>, RouterError> {
    let mut lasts: Vec<u64> = Vec::with_capacity(ranges.len());
    for (_, range) in ranges {
        let covered = lasts.last().copied();
        let expected = covered.map_or(0, |covered| covered.saturating_add(1));
        if range.start > expected {
            return Err(RouterError::Gap { expected, found: range.start });
        }
        let Some(last) = range.last() else {
            return Err(RouterError::EmptyRange { start: range.start });
        };
        if let Some(covered) = covered.filter(|covered| range.start <= *covered) {
            return Err(RouterError::Overlap { first: range.start, last: last.min(covered) });
        }
        lasts.push(last);
    }
    match lasts.last() {
        None => Err(RouterError::EmptyRanges),
        Some(&u64::MAX) => Ok(lasts),
        Some(&last) => Err(RouterError::IncompleteCoverage { ends_at: last.saturating_add(1) }),
    }
}

fn check_unique(shards: &[ShardId]) -> Result<(), RouterError> {
    let mut sorted = shards.to_vec();
    sorted.sort_unstable();
    match iter::zip(&sorted, sorted.iter().skip(1)).find(|(shard, next)| shard == next) {
        Some((&shard, _)) => Err(RouterError::DuplicateShard { shard }),
        None => Ok(()),
    }
}
