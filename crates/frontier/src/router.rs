//! The shard router: which shard owns an entity.
//!
//! A [`ShardRouter`] maps every [`EntityId`] to exactly one [`ShardId`]. It is a plain value: it
//! cannot fail once it is built, needs no lock, keeps no state between calls, and costs next to
//! nothing to clone. The same router gives the same answer on every machine and in every release,
//! since data is placed by it.
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
//! * *Truncated hash*: the plain FNV-1a hash cut to its low 16 bits, modulo the number of shards.
//!   It is here for data that was placed so, and for nothing else: 65,536 values do not divide
//!   evenly among, say, 40,000 shards, of which some get twice the share of others.
//! * *Range*: each shard owns one run of adjacent ids, by a table that the operator writes. The
//!   table is checked once, so that every id has one owner.
//!
//! # What is left out
//!
//! There is no weighting, and no consistent hashing: a router does not change, it is replaced, and
//! moving the data is up to whoever replaces it.

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
        /// How many shards there are, numbered from 0.
        num_shards: NonZeroU16,
    },
    /// The shard is the low 16 bits of the hash modulo the number of shards; for data placed
    /// that way before.
    HashTruncated {
        /// How many shards there are, numbered from 0.
        num_shards: NonZeroU16,
    },
    /// The shard is the owner of the range that holds the id.
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
    /// [`RouterError::ZeroShards`] if there is no shard to send anything to.
    pub fn hash(num_shards: u16) -> Result<Self, RouterError> {
        let num_shards = NonZeroU16::new(num_shards).ok_or(RouterError::ZeroShards)?;
        Ok(Self { strategy: RoutingStrategy::Hash { num_shards } })
    }

    /// A router that agrees with data placed by the low 16 bits of the hash; for anything new,
    /// take [`hash`](Self::hash).
    ///
    /// # Errors
    ///
    /// [`RouterError::ZeroShards`] if there is no shard to send anything to.
    pub fn hash_truncated(num_shards: u16) -> Result<Self, RouterError> {
        let num_shards = NonZeroU16::new(num_shards).ok_or(RouterError::ZeroShards)?;
        Ok(Self { strategy: RoutingStrategy::HashTruncated { num_shards } })
    }

    /// A router that sends each entity to the owner of its range. The ranges may come in any
    /// order; together they must hold every id once, and no shard may own two of them.
    ///
    /// # Errors
    ///
    /// Of several faults one is reported, and the order of the list does not matter to which:
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

    /// The shard that owns the entity. Every id has one, and the answer never changes.
    // Left to itself the compiler makes this a call, which costs a third of a hash.
    #[inline(always)]
    #[must_use]
    pub fn route(&self, entity_id: EntityId) -> ShardId {
        let id = entity_id.as_u64();
        let number = match &self.strategy {
            RoutingStrategy::Single => return ShardId::SINGLE,
            RoutingStrategy::Range(table) => return table.shard_of(id),
            RoutingStrategy::Hash { num_shards } => scaled(avalanched(id), num_shards.get()),
            RoutingStrategy::HashTruncated { num_shards } => {
                // Divided in 32 bits, which takes less time than in 16.
                let low_bits = u32::from(fnv1a_64(id) as u16);
                u64::from(low_bits % NonZeroU32::from(*num_shards))
            }
        };
        ShardId::from_raw(number)
    }

    /// Every shard that the router can answer with, in ascending order, each once.
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

    /// How the router chooses.
    #[must_use]
    pub const fn strategy(&self) -> &RoutingStrategy {
        &self.strategy
    }
}

/// The id of one routed entity.
///
/// Every number is a valid id, the largest included.
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

/// The ids from `start` up to, not including, `end`; an `end` of [`u64::MAX`] takes in the last
/// id as well.
///
/// A half-open range of `u64` cannot name the last id, since the bound past it does not exist.
/// Stored configurations already write `u64::MAX` to say "to the very end", and they must go on
/// covering everything, so here that bound is read as reaching *through* the last id. No id is
/// then left without an owner. The price is that the last id cannot be cut off from the one
/// before it: no range says "up to, not including, `u64::MAX`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EntityIdRange {
    /// The first id.
    pub start: u64,
    /// The id after the last one, or [`u64::MAX`] for a range that runs through the last id.
    pub end: u64,
}

impl EntityIdRange {
    /// Every id there is.
    #[must_use]
    pub const fn full() -> Self {
        Self { start: 0, end: u64::MAX }
    }

    /// Whether the range holds `id`.
    #[must_use]
    pub const fn contains(&self, id: u64) -> bool {
        id >= self.start && (id < self.end || self.end == u64::MAX)
    }

    /// Whether the range holds no id at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.last().is_none()
    }

    /// The greatest id of the range, or nothing if it is empty.
    ///
    /// The router works with this inclusive bound alone, so the double meaning of `u64::MAX` is
    /// settled here and nowhere else.
    const fn last(&self) -> Option<u64> {
        match self.end {
            u64::MAX => Some(u64::MAX),
            end if end > self.start => Some(end - 1),
            _ => None,
        }
    }

    /// The range from `first` through `last`, where `last` is not the id before the greatest:
    /// see the type's documentation for why that one bound cannot be written.
    const fn through(first: u64, last: u64) -> Self {
        Self { start: first, end: last.saturating_add(1) }
    }
}

/// Why a router could not be built.
///
/// Routing itself cannot fail, so this is the only error of the module. A list of ranges may be
/// wrong in several ways at once; [`ShardRouter::range`](ShardRouter::range) says which
/// one is reported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouterError {
    /// A hash router was asked to spread ids over no shards.
    #[error("a hash router needs at least one shard")]
    ZeroShards,

    /// A range router was given no ranges.
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

/// FNV-1a without the patterns that it leaves.
#[inline]
fn avalanched(id: u64) -> u64 {
    hash::avalanched(&id.to_le_bytes())
}

/// Scales a hash that is spread over all 64-bit numbers down to `0..count`.
#[inline]
fn scaled(hash: u64, count: u16) -> u64 {
    hash::scaled(hash, count.into()).into()
}

#[cfg(test)]
mod tests;
