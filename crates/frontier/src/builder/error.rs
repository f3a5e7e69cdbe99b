use shardwright_contracts::{ManifestValidationError, ShardSpecInputError, SlabFull};

use crate::key_encoding::{PrefixShardError, ShardIntoError};

/// Why a builder could not be made, a shard not staged, or the whole not built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreallocShardBuilderError {
    /// The builder was to hold no shard at all.
    #[error("a builder needs room for at least one shard")]
    EntryLimitZero,
    /// The builder was to hold more shards than its type has room for.
    #[error("a limit of {entry_limit} shards exceeds the {cap} that this builder has room for")]
    CapMismatch {
        /// How many it was to hold.
        entry_limit: usize,
        /// How many it has room for.
        cap: usize,
    },
    /// The builder was to hold more shards than a run may start with.
    #[error("a limit of {entry_limit} shards exceeds the {max} that a run may start with")]
    EntryLimitExceedsManifestMax {
        /// How many it was to hold.
        entry_limit: usize,
        /// How many a run may start with.
        max: usize,
    },
    /// There is no room for so many more shards.
    #[error("{additional} more shards beside {current} exceed {limit}")]
    CapacityExceeded {
        /// How many may be staged.
        limit: usize,
        /// How many are.
        current: usize,
        /// How many were to be added.
        additional: usize,
    },
    /// One cut would make too many shards.
    #[error("a split into {requested} shards exceeds {limit}")]
    FanOutExceeded {
        /// How many one cut may make.
        limit: usize,
        /// How many it would make.
        requested: usize,
    },
    /// The arena is full.
    #[error("the arena is full")]
    SlabFull(#[source] SlabFull),
    /// A range is not valid.
    #[error("the range makes no valid shard")]
    RangeInvalid(#[source] ShardSpecInputError),
    /// A prefix is not valid.
    #[error("the prefix makes no valid shard")]
    PrefixInvalid(#[source] PrefixShardError),
    /// A row range is not valid.
    #[error("the rows make no valid shard")]
    ManifestCtorInvalid(#[source] ShardSpecInputError),
    /// A given spec is not valid.
    #[error("the spec is invalid")]
    SpecInvalid(#[source] ShardSpecInputError),
    /// A handle was freed, or belongs to another arena.
    #[error("the handle names no spec in this builder's arena")]
    InvalidSpecHandle,
    /// The shards, each valid by itself, make no manifest.
    #[error("the staged shards make no manifest")]
    ManifestInvalid(#[from] ManifestValidationError),
}

impl PreallocShardBuilderError {
    pub(super) fn from_range(error: ShardIntoError<ShardSpecInputError>) -> Self {
        Self::from_into_error(error, Self::RangeInvalid)
    }

    pub(super) fn from_prefix(error: ShardIntoError<PrefixShardError>) -> Self {
        Self::from_into_error(error, Self::PrefixInvalid)
    }

    pub(super) fn from_manifest(error: ShardIntoError<ShardSpecInputError>) -> Self {
        Self::from_into_error(error, Self::ManifestCtorInvalid)
    }

    pub(super) fn from_spec(error: ShardIntoError<ShardSpecInputError>) -> Self {
        Self::from_into_error(error, Self::SpecInvalid)
    }

    fn from_into_error<E>(error: ShardIntoError<E>, invalid: impl FnOnce(E) -> Self) -> Self {
        match error {
            ShardIntoError::Build(error) => invalid(error),
            ShardIntoError::SlabFull(full) => Self::SlabFull(full),
        }
    }
}
