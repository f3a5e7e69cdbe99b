//! The shard router: maps entities to shards.
//!
//! A [`ShardRouter`] maps every [`EntityId`] to exactly one [`ShardId`]. It is an immutable value:
//! routing cannot fail, needs no lock and keeps no state, and cloning is cheap. The same router
//! gives the same answer on every machine and in every release, because data is placed by it.
//!
//! ```
//! use shardwright_contracts::ShardId;
//! use shardwright_frontier::router::{EntityId, EntityIdRange, ShardRouter};
//!
//! let router = ShardRouter::range(vec![
//!     (ShardId::from_raw(7), EntityIdRange { start: 0, end: 1_000 }),
//!     (ShardId::from_raw(8), EntityIdRange { start: 1_000, end: u64::MAX }),
//! ])?;
//! assert_eq!(router.route(EntityId::from(999)), ShardId::from_raw(7));
//! assert_eq!(router.route(EntityId::from(u64::MAX)), ShardId::from_raw(8));
//! # Ok::<(), shardwright_frontier::router::RouterError>(())
//! ```
//!
//! # Strategies
//!
//! * *Single*: everything is on shard 0.
//! * *Hash*: the FNV-1a hash of the id, 64 bits wide over the id's little-endian bytes and then
//!   mixed once more, scaled to the number of shards. Ids are scattered whatever pattern they
//!   have, nothing has to be configured, and a change of the number of shards moves nearly every
//!   id.
//! * *Truncated hash*: the low 16 bits of the plain FNV-1a hash, modulo the number of shards. Only
//!   for data that was placed so before: 65,536 values do not divide evenly among 40,000 shards,
//!   so some get twice the share of others.
//! * *Range*: each shard owns one run of adjacent ids, by a table that the operator writes. The
//!   table is checked once, so that every id has one owner.
//!
//! # What is left out
//!
//! There is no weighting and no consistent hashing. A router does not change. An application that
//! replaces one has to move the data.

mod range_table;
mod search_tree;

use std::num::{NonZeroU16, NonZeroU32};

use shardwright_contracts::{ShardId, hash};

pub use range_table::RangeTable;

/// How a router chooses the shard of an entity.
#[derive(Clone, Debug)]
pub enum RoutingStrategy {
    /// Shard 0 owns everything.
    Single,
    /// The shard is the hash of the id, scaled to the number of shards.
    Hash {
        /// The number of shards. They are numbered from 0.
        num_shards: NonZeroU16,
    },
    /// The shard is the low 16 bits of the hash modulo the number of shards. Only for data placed
    /// that way before.
    HashTruncated {
        /// The number of shards. They are numbered from 0.
        num_shards: NonZeroU16,
    },
    /// The shard owns the range of the id.
    Range(RangeTable),
}

/// Maps each entity to its shard.
#[derive(Clone, Debug)]
pub struct ShardRouter {
    strategy: RoutingStrategy,
}

impl ShardRouter {
    /// A router that sends every entity to [`ShardId::SINGLE`].
    #[must_use]
    pub const fn single() -> Self {
        Self { strategy: RoutingStrategy::Single }
    }

    /// A router that spreads entities over the shards `0..num_shards` by hash.
    ///
    /// # Errors
    ///
    /// [`RouterError::ZeroShards`] if `num_shards` is zero.
    pub fn hash(num_shards: u16) -> Result<Self, RouterError> {
        let num_shards = NonZeroU16::new(num_shards).ok_or(RouterError::ZeroShards)?;
        Ok(Self { strategy: RoutingStrategy::Hash { num_shards } })
    }

    /// A router for data placed by the low 16 bits of the hash. For new data use
    /// [`hash`](Self::hash).
    ///
    /// # Errors
    ///
    /// [`RouterError::ZeroShards`] if `num_shards` is zero.
    pub fn hash_truncated(num_shards: u16) -> Result<Self, RouterError> {
        let num_shards = NonZeroU16::new(num_shards).ok_or(RouterError::ZeroShards)?;
        Ok(Self { strategy: RoutingStrategy::HashTruncated { num_shards } })
    }

    /// A router that sends each entity to the owner of its range. The ranges may be in any order.
    /// Together they must contain every id once, and no shard may own two of them.
    ///
    /// # Errors
    ///
    /// One fault is reported, independent of the order of the list:
    ///
    /// 1. [`EmptyRanges`](RouterError::EmptyRanges) if there are no ranges.
    /// 2. The first fault met going through the ranges by start. For one range these are, in
    ///    turn: [`Gap`](RouterError::Gap) if ids before it have no owner,
    ///    [`EmptyRange`](RouterError::EmptyRange) if it holds nothing, and
    ///    [`Overlap`](RouterError::Overlap) if it shares ids with the one before.
    /// 3. [`IncompleteCoverage`](RouterError::IncompleteCoverage) if ids after the last range have
    ///    no owner.
    /// 4. [`DuplicateShard`](RouterError::DuplicateShard), for the lowest shard that owns two.
    pub fn range(ranges: Vec<(ShardId, EntityIdRange)>) -> Result<Self, RouterError> {
        Ok(Self { strategy: RoutingStrategy::Range(RangeTable::new(ranges)?) })
    }

    /// The shard that owns the entity. The answer never changes.
    // Without inlining the call costs a third of a hash.
    #[inline(always)]
    #[must_use]
    pub fn route(&self, entity_id: EntityId) -> ShardId {
        let id = entity_id.as_u64();
        let number = match &self.strategy {
            RoutingStrategy::Single => return ShardId::SINGLE,
            RoutingStrategy::Range(table) => return table.shard_of(id),
            RoutingStrategy::Hash { num_shards } => scaled(avalanched(id), num_shards.get()),
            RoutingStrategy::HashTruncated { num_shards } => {
                // A 32-bit division is faster than a 16-bit one.
                let low_bits = u32::from(fnv1a_64(id) as u16);
                u64::from(low_bits % NonZeroU32::from(*num_shards))
            }
        };
        ShardId::from_raw(number)
    }

    /// Every shard of the router, in ascending order.
    #[must_use]
    pub fn all_shards(&self) -> Vec<ShardId> {
        match &self.strategy {
            RoutingStrategy::Single => vec![ShardId::SINGLE],
            RoutingStrategy::Hash { num_shards }
            | RoutingStrategy::HashTruncated { num_shards } => {
                (0..num_shards.get()).map(|number| ShardId::from_raw(number.into())).collect()
            }
            RoutingStrategy::Range(table) => {
                let mut shards: Vec<ShardId> = table.ranges().map(|(shard, _)| shard).collect();
                shards.sort_unstable();
                shards
            }
        }
    }

    /// The strategy of the router.
    #[must_use]
    pub const fn strategy(&self) -> &RoutingStrategy {
        &self.strategy
    }
}

/// The id of one routed entity.
///
/// Every number is a valid id, including the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(u64);

impl EntityId {
    /// The raw number.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for EntityId {
    fn from(raw: u64) -> Self {
        Self(raw)
    }
}

/// The ids from `start` up to, not including, `end`. An `end` of [`u64::MAX`] includes the last id
/// as well.
///
/// A half-open range of `u64` cannot contain the last id, because there is no bound after it.
/// Stored configurations use `u64::MAX` for "to the end", so this bound includes the last id and
/// every id has an owner. As a consequence no range ends right before the last id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntityIdRange {
    /// The first id.
    pub start: u64,
    /// The id after the last one, or [`u64::MAX`] for a range that runs through the last id.
    pub end: u64,
}

impl EntityIdRange {
    /// All ids.
    #[must_use]
    pub const fn full() -> Self {
        Self { start: 0, end: u64::MAX }
    }

    /// Whether the range contains `id`.
    #[must_use]
    pub const fn contains(&self, id: u64) -> bool {
        id >= self.start && (id < self.end || self.end == u64::MAX)
    }

    /// Whether the range is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.last().is_none()
    }

    /// The greatest id of the range, or `None` if it is empty.
    ///
    /// The router uses only this inclusive bound, so `u64::MAX` is interpreted here and nowhere
    /// else.
    const fn last(&self) -> Option<u64> {
        match self.end {
            u64::MAX => Some(u64::MAX),
            end if end > self.start => Some(end - 1),
            _ => None,
        }
    }

    /// The range from `first` through `last`. `last` must not be the id before the greatest, which
    /// no range can end with.
    const fn through(first: u64, last: u64) -> Self {
        Self { start: first, end: last.saturating_add(1) }
    }
}

/// Why a router could not be built.
///
/// Routing cannot fail, so this is the only error of the module.
/// [`ShardRouter::range`](ShardRouter::range) documents which of several faults is reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A hash router has no shards.
    #[error("a hash router needs at least one shard")]
    ZeroShards,

    /// A range router has no ranges.
    #[error("a range router needs at least one range")]
    EmptyRanges,

    /// No range owns the ids from `expected` up to, not including, `found`.
    #[error("no range owns the ids from {expected} up to {found}")]
    Gap {
        /// The lowest id without an owner.
        expected: u64,
        /// The start of the next range.
        found: u64,
    },

    /// A range ends where it starts, or before.
    #[error("the range starting at {start} holds no ids")]
    EmptyRange {
        /// The start of that range.
        start: u64,
    },

    /// Two ranges own the ids from `first` through `last`.
    #[error("two ranges own the ids from {first} through {last}")]
    Overlap {
        /// The lowest id with two owners.
        first: u64,
        /// The greatest id that the same two ranges share.
        last: u64,
    },

    /// The ranges stop before the last id.
    #[error("no range owns the ids from {ends_at} to the end")]
    IncompleteCoverage {
        /// The lowest id without an owner.
        ends_at: u64,
    },

    /// A shard appears more than once.
    #[error("shard {shard} owns more than one range")]
    DuplicateShard {
        /// The lowest such shard.
        shard: ShardId,
    },
}

/// FNV-1a, 64 bits, over the eight bytes of an id, little-endian.
#[inline]
fn fnv1a_64(id: u64) -> u64 {
    hash::fnv1a_64(&id.to_le_bytes())
}

/// FNV-1a with a final avalanche step.
#[inline]
fn avalanched(id: u64) -> u64 {
    hash::avalanched(&id.to_le_bytes())
}

/// Scales a uniformly distributed hash to `0..count`.
#[inline]
fn scaled(hash: u64, count: u16) -> u64 {
    hash::scaled(hash, count.into()).into()
}

#[cfg(test)]
mod tests;
