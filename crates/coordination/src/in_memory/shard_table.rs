use shardwright_contracts::ShardId;

use super::pooled::PooledShard;
use super::row_index::RowIndex;

/// Shards per allocation. A small run allocates little, and a large one grows without moving more
/// than these.
const CHUNK_LEN: usize = 64;

/// The shards of a run in the order of insertion. Shards are never removed.
///
/// An operation looks up an id once. After that it uses the shard's row.
#[derive(Default)]
pub(super) struct ShardTable {
    /// All but the last are full.
    chunks: Vec<Vec<PooledShard>>,
    rows: RowIndex,
}

/// The permanent position of a shard in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row(u32);

impl Row {
    pub(super) const fn new(index: usize) -> Self {
        Self(index as u32)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ShardTable {
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn contains(&self, shard: ShardId) -> bool {
        self.row_of(shard).is_some()
    }

    pub(super) fn find(&self, shard: ShardId) -> Option<&PooledShard> {
        self.row_of(shard).and_then(|row| self.get(row))
    }

    pub(super) fn find_mut(&mut self, shard: ShardId) -> Option<(Row, &mut PooledShard)> {
        let row = self.row_of(shard)?;
        self.get_mut(row).map(|found| (row, found))
    }

    fn row_of(&self, shard: ShardId) -> Option<Row> {
        self.rows.find(shard, |row| self.get(row).is_some_and(|it| it.head.key.shard == shard))
    }

    pub(super) fn get(&self, row: Row) -> Option<&PooledShard> {
        let row = row.index();
        self.chunks.get(row / CHUNK_LEN)?.get(row % CHUNK_LEN)
    }

    pub(super) fn get_mut(&mut self, row: Row) -> Option<&mut PooledShard> {
        let row = row.index();
        self.chunks.get_mut(row / CHUNK_LEN)?.get_mut(row % CHUNK_LEN)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PooledShard> {
        self.chunks.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PooledShard> {
        self.chunks.iter_mut().flatten()
    }

    /// Adds shards with new ids and returns their rows.
    pub(super) fn add_all(&mut self, new: Vec<PooledShard>) -> impl Iterator<Item = Row> + use<> {
        let first = self.len();
        let rows = (first..first + new.len()).map(Row::new);
        self.rows.reserve(new.len());
        for (shard, row) in new.iter().zip(rows.clone()) {
            self.rows.insert(shard.head.key.shard, row);
        }
        let mut new = new.into_iter();
        while new.len() > 0 {
            if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK_LEN) {
                self.chunks.push(Vec::new());
            }
            if let Some(chunk) = self.chunks.last_mut() {
                let count = new.len().min(CHUNK_LEN - chunk.len());
                chunk.reserve_exact(count);
                chunk.extend(new.by_ref().take(count));
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::{
        CursorSemantics, CursorUpdate, RunId, ShardKey, ShardSpecRef, TenantId,
    };

    use super::super::byte_budget::ByteBudget;
    use super::*;
    use crate::record::ShardHead;

    fn shard(room: &mut ByteBudget, id: u64) -> PooledShard {
        let key = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(id));
        let tenant = TenantId::from_bytes([1; 32]);
        let head = ShardHead::new(tenant, key, None, CursorSemantics::Completed);
        let spec = ShardSpecRef::new(b"a", b"b", b"");
        PooledShard::insert(room, head, spec, CursorUpdate::initial()).unwrap()
    }

    #[test]
    fn shards_are_found_by_id_and_row_for_any_batch_size() {
        let mut room = ByteBudget::try_new(1_000, 2_000).unwrap();
        let mut table = ShardTable::default();
        // Ids decrease, so they follow neither the order of insertion nor that of the rows.
        let mut ids = (0..1_000).rev();
        let mut added = Vec::new();
        for count in [1, 62, 1, 1, 0, 64, 3, 300] {
            let new: Vec<_> = ids.by_ref().take(count).map(|id| shard(&mut room, id)).collect();
            added.extend(new.iter().map(|shard| shard.head.key.shard));
            let first = table.len();
            let rows: Vec<Row> = table.add_all(new).collect();
            assert!(rows.into_iter().eq((first..table.len()).map(Row::new)));
        }
        assert_eq!(table.len(), 432);
        assert!(table.iter().map(|shard| shard.head.key.shard).eq(added.iter().copied()));
        for (id, row) in added.into_iter().zip((0..).map(Row::new)) {
            assert_eq!(table.get(row).unwrap().head.key.shard, id);
            assert_eq!(table.find(id).unwrap().head.key.shard, id);
            let (found, shard) = table.find_mut(id).unwrap();
            assert_eq!((found, shard.head.key.shard), (row, id));
        }
        let absent = ShardId::from_raw(0);
        assert!(!table.contains(absent) && table.find_mut(absent).is_none());
        assert!(table.get(Row::new(432)).is_none() && table.get_mut(Row::new(448)).is_none());
    }

    #[test]
    fn shard_fills_four_cache_lines() {
        assert_eq!((size_of::<PooledShard>(), align_of::<PooledShard>()), (256, 64));
    }

    #[test]
    fn manifest_allocates_only_what_it_needs() {
        let mut room = ByteBudget::try_new(100, 1_000).unwrap();
        let mut table = ShardTable::default();
        _ = table.add_all((0..70).map(|id| shard(&mut room, id)).collect());
        let capacities: Vec<usize> = table.chunks.iter().map(Vec::capacity).collect();
        assert_eq!(capacities, [64, 6]);
    }
}
