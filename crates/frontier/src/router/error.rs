use shardwright_contracts::ShardId;

/// Why a router could not be built.
///
/// Routing itself cannot fail, so this is the only error of the module. A list of ranges may be
/// wrong in several ways at once; [`ShardRouter::range`](super::ShardRouter::range) says which
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
