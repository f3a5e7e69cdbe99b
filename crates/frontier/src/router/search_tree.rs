//! A static search tree over the last ids of the ranges.
//!
//! The ranges tile all ids, so the owner of an id is the first range whose last id is not below it.
//! A leaf holds the last ids of eight ranges and, in the next cache line, their owners. Each level
//! above holds the greatest id of every node of the level below, sixty-four per node, up to a
//! single root. The index of a node follows from the path to it, so there are no pointers. A
//! million ranges need three nodes and a leaf per search.
//!
//! The widths are measured. Wide nodes need few instructions per search, so the processor can start
//! the next search while it waits for the leaf of this one.
//!
//! A short node at the end of a level is padded with `u64::MAX`. No id is above that, so a search
//! never passes the padding. The last range ends there too.

use shardwright_contracts::ShardId;

/// Ranges of a leaf.
const LEAF: usize = 8;
/// Ids of a node.
const NODE: usize = 64;

/// Finds the range of an id.
pub(super) struct SearchTree {
    /// The levels above the leaves, from the root down.
    levels: Box<[Box<[Node]>]>,
    leaves: Box<[Leaf]>,
    len: usize,
}

/// The greatest ids of adjacent nodes of the level below.
#[repr(align(64))]
struct Node([u64; NODE]);

/// The last ids and the owners of adjacent ranges.
#[repr(align(128))]
struct Leaf {
    lasts: [u64; LEAF],
    shards: [ShardId; LEAF],
}

impl SearchTree {
    /// Builds from the last ids of the ranges, ascending and ending in `u64::MAX`, and from the
    /// owners of the same ranges.
    pub(super) fn new(lasts: &[u64], shards: &[ShardId]) -> Self {
        let leaf = |(lasts, shards)| Leaf {
            lasts: filled(lasts, u64::MAX),
            shards: filled(shards, ShardId::SINGLE),
        };
        let leaves: Box<[Leaf]> = lasts.chunks(LEAF).zip(shards.chunks(LEAF)).map(leaf).collect();

        let mut levels = Vec::new();
        let mut greatest: Vec<u64> = leaves.iter().map(|leaf| greatest_of(leaf.lasts)).collect();
        while greatest.len() > 1 {
            let node = |ids| Node(filled(ids, u64::MAX));
            let level: Box<[Node]> = greatest.chunks(NODE).map(node).collect();
            greatest = level.iter().map(|node| greatest_of(node.0)).collect();
            levels.push(level);
        }
        levels.reverse();
        Self { levels: levels.into_boxed_slice(), leaves, len: lasts.len() }
    }

    /// The number of ranges.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The last id and the owner of each range, in ascending order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (u64, ShardId)> {
        self.leaves.iter().flat_map(|leaf| leaf.lasts.into_iter().zip(leaf.shards)).take(self.len)
    }

    /// The owner of `id`.
    #[allow(
        clippy::indexing_slicing,
        reason = "a search stops at or before the last real id of a level, which is u64::MAX, and \
                  each real id stands for a node of the next level; a position is below the width"
    )]
    pub(super) fn shard_of(&self, id: u64) -> ShardId {
        let mut slot = 0;
        for level in &self.levels {
            slot = slot * NODE + position(&level[slot].0, id);
        }
        let leaf = &self.leaves[slot];
        leaf.shards[position(&leaf.lasts, id)]
    }
}

/// The position of the first of the ascending `ids` that is not below `id`. The last id is never
/// below `id`, and `WIDTH` is a power of two.
///
/// Branchless halving: with random ids, half of all branches would be mispredicted.
#[inline]
#[allow(
    clippy::indexing_slicing,
    reason = "the position is a multiple of twice the step and below the width, so adding less \
              than a step keeps it below"
)]
fn position<const WIDTH: usize>(ids: &[u64; WIDTH], id: u64) -> usize {
    let mut position = 0;
    let mut step = WIDTH / 2;
    while step > 0 {
        position += step * usize::from(ids[position + step - 1] < id);
        step /= 2;
    }
    position
}

/// The last of the ascending `ids`.
fn greatest_of<const WIDTH: usize>(ids: [u64; WIDTH]) -> u64 {
    ids.into_iter().fold(0, u64::max)
}

/// The entries of `chunk`, padded with `filling` to the full width.
fn filled<T: Copy, const WIDTH: usize>(chunk: &[T], filling: T) -> [T; WIDTH] {
    let mut entries = [filling; WIDTH];
    entries.iter_mut().zip(chunk).for_each(|(slot, entry)| *slot = *entry);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evenly spaced ranges `[0, 9], [10, 19], …`, the last of them open. Range `i` belongs to
    /// shard `1000 + i`, so no owner equals the padding.
    fn tree(len: u64) -> SearchTree {
        let lasts: Vec<u64> = (1..len).map(|i| i * 10 - 1).chain([u64::MAX]).collect();
        let shards: Vec<ShardId> = (0..len).map(|i| ShardId::from_raw(1000 + i)).collect();
        SearchTree::new(&lasts, &shards)
    }

    #[test]
    fn both_ends_of_every_range_are_found() {
        let around = |size: u64| [size - 1, size, size + 1];
        let sizes = [2, 4, 8, 16, 64, 8 * 63, 8 * 64, 8 * 65, 8 * 64 * 2, 8 * 64 * 64];
        for size in sizes.into_iter().flat_map(around) {
            let tree = tree(size);
            for i in 0..size {
                let last = if i + 1 == size { u64::MAX } else { i * 10 + 9 };
                assert_eq!(tree.shard_of(i * 10).as_raw(), 1000 + i, "start of {i} of {size}");
                assert_eq!(tree.shard_of(last).as_raw(), 1000 + i, "last of {i} of {size}");
            }
        }
    }

    #[test]
    fn tree_depth_follows_its_size() {
        let depths = [(8, 0), (9, 1), (8 * 64, 1), (8 * 64 + 1, 2), (8 * 64 * 64 + 1, 3)];
        for (size, depth) in depths {
            assert_eq!(tree(size).levels.len(), depth, "{size} ranges");
        }
    }

    #[test]
    fn entries_exclude_the_padding() {
        for size in [1, 7, 8, 9, 100] {
            let tree = tree(size);
            assert_eq!(tree.len() as u64, size);
            assert_eq!(tree.entries().count() as u64, size);
            assert_eq!(tree.entries().last(), Some((u64::MAX, ShardId::from_raw(999 + size))));
        }
    }

    #[test]
    fn leaves_and_nodes_fill_whole_cache_lines() {
        assert_eq!(size_of::<Leaf>(), 128);
        assert_eq!(size_of::<Node>(), NODE * 8);
    }
}
