//! The ids of shards that splits make.

use shardwright_contracts::{CanonicalSink, Domain, DomainHasher, OpId, ShardId, ShardKey};

use crate::record::Spawned;

/// The relation of a derived shard to its parent. Part of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DerivedShardKind {
    /// One of the children that replace the parent.
    Child = 0,
    /// The right part of the parent.
    Residual = 1,
}

// Part of every derived id, and so of stored data.
const _: () = assert!(DerivedShardKind::Child as u8 == 0 && DerivedShardKind::Residual as u8 == 1);

/// The id of the `index`-th shard that `op` derives from `parent`.
///
/// It depends on nothing else, so every retry and every backend derives the same id.
#[must_use]
pub fn derive_split_shard_id(
    parent: ShardKey,
    op: OpId,
    kind: DerivedShardKind,
    index: u32,
) -> ShardId {
    let mut hasher = DomainHasher::new(Domain::SplitId).with(&parent).with(&op);
    hasher.put_u8(kind as u8);
    hasher.put_u32(index);
    ShardId::from_raw(hasher.digest64()).into_derived()
}

/// The shards among those spawned by `parent` that `op` derived, in order.
pub(crate) fn spawned_by(
    parent: ShardKey,
    spawned: &[Spawned],
    op: OpId,
    kind: DerivedShardKind,
) -> impl Iterator<Item = Spawned> {
    spawned.iter().zip(0..).filter_map(move |(spawned, index)| {
        let derived = derive_split_shard_id(parent, op, kind, index);
        (derived == spawned.shard).then_some(*spawned)
    })
}

#[cfg(test)]
mod tests {
    use shardwright_contracts::RunId;

    use super::*;

    fn derive(run: u64, shard: u64, op: u64, kind: DerivedShardKind, index: u32) -> ShardId {
        let parent = ShardKey::new(RunId::from_raw(run), ShardId::from_raw(shard));
        derive_split_shard_id(parent, OpId::from_raw(op), kind, index)
    }

    #[test]
    fn every_input_changes_the_derived_id() {
        use DerivedShardKind::{Child, Residual};
        let ids = [
            derive(1, 2, 3, Child, 0),
            derive(9, 2, 3, Child, 0),
            derive(1, 9, 3, Child, 0),
            derive(1, 2, 9, Child, 0),
            derive(1, 2, 3, Residual, 0),
            derive(1, 2, 3, Child, 1),
        ];
        for (index, id) in ids.iter().enumerate() {
            assert!(id.is_derived());
            assert!(!ids[..index].contains(id), "{index}");
        }
        assert_eq!(derive(1, 2, 3, Child, 0), ids[0]);
    }

    /// Computed with another implementation of BLAKE3.
    #[test]
    fn golden_ids() {
        let residual = derive(7, 3, 9, DerivedShardKind::Residual, 5);
        assert_eq!(residual.as_raw(), 0x8f07_0df1_669a_6e9e);
        let child = derive(7, 3, 9, DerivedShardKind::Child, 5);
        assert_eq!(child.as_raw(), 0xe8b8_eff8_d453_7364);
    }
}
