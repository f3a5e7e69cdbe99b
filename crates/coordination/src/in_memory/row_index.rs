use std::num::NonZeroU32;

use shardwright_contracts::ShardId;

use super::shard_table::Row;

/// Minimum size of a table that is not empty. Every size is a power of two.
const PLACES_MIN: usize = 8;

/// A hash table from ids to rows, with linear probing. A lookup costs about one memory access,
/// where a tree costs one per level.
///
/// An entry stores a tag of the id. The row leads to the shard, which has the whole id. The table
/// cannot be iterated, so its order is never visible. Ids with equal tags slow down only their own
/// run, and not by much: manifests are bounded, and derived ids are digests.
#[derive(Default)]
pub(super) struct RowIndex {
    /// At most three quarters are in use, so probes are short.
    places: Vec<Option<Entry>>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    tag: NonZeroU32,
    row: Row,
}

impl RowIndex {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The row of an id. `is_its` checks whether a row with the same tag belongs to it.
    pub(super) fn find(&self, id: ShardId, is_its: impl Fn(Row) -> bool) -> Option<Row> {
        let tag = tag_of(id);
        let (before, from) = self.places.split_at_checked(self.home(tag))?;
        let taken = from.iter().chain(before).map_while(|place| *place);
        let mut alike = taken.filter(|entry| entry.tag == tag).map(|entry| entry.row);
        alike.find(|row| is_its(*row))
    }

    /// Reserves room for more ids.
    pub(super) fn reserve(&mut self, additional: usize) {
        let len = self.len.saturating_add(additional);
        let needed = (len + len.div_ceil(3)).next_power_of_two().max(PLACES_MIN);
        if additional > 0 && needed > self.places.len() {
            let entries = std::mem::replace(&mut self.places, vec![None; needed]);
            entries.into_iter().flatten().for_each(|entry| self.put(entry));
        }
    }

    /// Adds a new id.
    pub(super) fn insert(&mut self, id: ShardId, row: Row) {
        self.reserve(1);
        self.put(Entry { tag: tag_of(id), row });
        self.len += 1;
    }

    fn put(&mut self, entry: Entry) {
        let home = self.home(entry.tag);
        if let Some((before, from)) = self.places.split_at_mut_checked(home)
            && let Some(gap) = from.iter_mut().chain(before).find(|place| place.is_none())
        {
            *gap = Some(entry);
        }
    }

    /// The preferred position of a tag: its highest bits. So a growing table needs only the stored
    /// tags.
    const fn home(&self, tag: NonZeroU32) -> usize {
        let places = self.places.len() as u64;
        ((tag.get() as u64 * places) >> u32::BITS) as usize
    }
}

/// Evenly distributed bits of an id, for sequential ids and for digests.
fn tag_of(id: ShardId) -> NonZeroU32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(id.as_raw()) * u128::from(ODD);
    let folded = (product >> u64::BITS) as u64 ^ product as u64;
    NonZeroU32::MIN | (folded >> u32::BITS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sequential ids, ids that count in the high bits, and ids from a digest.
    fn ids(count: u64) -> Vec<ShardId> {
        let derived = |n: u64| n.wrapping_mul(0xc4ce_b9fe_1a85_ec53) | 1 << 63;
        let all = (0..count).flat_map(|n| [n, (n + 1) << 40, derived(n)]);
        all.map(ShardId::from_raw).collect()
    }

    fn index_of(ids: &[ShardId]) -> RowIndex {
        let mut index = RowIndex::default();
        for (row, id) in ids.iter().enumerate() {
            index.insert(*id, Row::new(row));
        }
        index
    }

    fn find(index: &RowIndex, ids: &[ShardId], id: ShardId) -> Option<usize> {
        let is_its = |row: Row| ids[row.index()] == id;
        index.find(id, is_its).map(Row::index)
    }

    #[test]
    fn every_id_finds_only_its_row() {
        let all = ids(3_000);
        let (there, absent) = all.split_at(5_000);
        let index = index_of(there);
        assert_eq!(index.len(), 5_000);
        for (row, id) in there.iter().enumerate() {
            assert_eq!(find(&index, there, *id), Some(row));
        }
        assert!(absent.iter().all(|id| find(&index, there, *id).is_none()));
        assert_eq!(find(&RowIndex::default(), there, there[0]), None);
    }

    #[test]
    fn equal_tags_are_resolved_by_the_shard_id() {
        let tag = tag_of(ShardId::from_raw(1));
        let mut index = RowIndex::default();
        index.reserve(6);
        for row in 0..6 {
            index.put(Entry { tag, row: Row::new(row) });
        }
        for row in (0..6).map(Row::new) {
            assert_eq!(index.find(ShardId::from_raw(1), |other| other == row), Some(row));
        }
        assert_eq!(index.find(ShardId::from_raw(1), |_| false), None);
    }

    #[test]
    fn probe_sequences_are_short() {
        let all = ids(30_000);
        let index = index_of(&all);
        let taken = index.places.iter().flatten().count();
        assert_eq!(taken, all.len());
        assert!(4 * taken <= 3 * index.places.len());
        let places = index.places.len();
        let distance = |(place, entry): (usize, &Option<Entry>)| {
            entry.map(|entry| (place + places - index.home(entry.tag)) % places)
        };
        let walked: usize = index.places.iter().enumerate().filter_map(distance).sum();
        // Random placement at three quarters gives one and a half.
        assert!(walked < 2 * taken, "{walked} for {taken}");
    }

    #[test]
    fn entry_takes_eight_bytes() {
        assert_eq!(size_of::<Option<Entry>>(), 8);
    }
}
