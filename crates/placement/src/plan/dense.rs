//! Lists per node or per shard, indexed by typed numbers.

use std::ops::{Index, IndexMut};

/// The index of a node among the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeNo(u32);

/// The number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardNo(u32);

pub(super) trait Number: Copy {
    fn new(index: usize) -> Self;
    fn index(self) -> usize;
}

macro_rules! number {
    ($name:ident) => {
        impl Number for $name {
            fn new(index: usize) -> Self {
                // There are far fewer shards than numbers, and no use for more nodes than that.
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

number!(NodeNo);
number!(ShardNo);

impl ShardNo {
    pub(super) const FIRST: Self = Self(0);

    pub(super) const fn id(self) -> shardwright_contracts::ShardId {
        shardwright_contracts::ShardId::from_raw(self.0 as u64)
    }
}

/// One value per number.
#[derive(Clone, Debug)]
pub(super) struct Dense<N, T> {
    items: Vec<T>,
    numbers: std::marker::PhantomData<N>,
}

pub(super) type PerNode<T> = Dense<NodeNo, T>;
pub(super) type PerShard<T> = Dense<ShardNo, T>;

impl<N: Number, T> Dense<N, T> {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn numbers(&self) -> impl DoubleEndedIterator<Item = N> + use<N, T> {
        (0..self.items.len()).map(N::new)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (N, &T)> {
        self.items.iter().enumerate().map(|(index, item)| (N::new(index), item))
    }
}

impl<T> PerShard<T> {
    /// The number of a shard in the list.
    pub(super) fn number_of(&self, shard: shardwright_contracts::ShardId) -> Option<ShardNo> {
        let index = usize::try_from(shard.as_raw()).ok()?;
        (index < self.len()).then(|| ShardNo::new(index))
    }
}

impl<N, T> FromIterator<T> for Dense<N, T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self { items: items.into_iter().collect(), numbers: std::marker::PhantomData }
    }
}

impl<N: Number, T> Index<N> for Dense<N, T> {
    type Output = T;

    #[expect(clippy::indexing_slicing, reason = "numbers come from lists of the same length")]
    fn index(&self, number: N) -> &T {
        &self.items[number.index()]
    }
}

impl<N: Number, T> IndexMut<N> for Dense<N, T> {
    #[expect(clippy::indexing_slicing, reason = "numbers come from lists of the same length")]
    fn index_mut(&mut self, number: N) -> &mut T {
        &mut self.items[number.index()]
    }
}
