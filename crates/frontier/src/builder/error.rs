use shardwright_contracts::{ManifestValidationError, ShardSpecInputError, SlabFull};

use crate::key_encoding::{PrefixShardError, ShardIntoError};

/// Why a builder could not be made, a shard not staged, or the manifest not built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PreallocShardBuilderError {
    /// The requested limit is zero.
    #[error("a builder needs room for at least one shard")]
    EntryLimitZero,
    /// The requested limit exceeds the capacity of the type.
    #[error("a limit of {entry_limit} shards exceeds the {cap} that this builder has room for")]
    CapMismatch {
        /// The requested limit.
        entry_limit: usize,
        /// The capacity.
        cap: usize,
    },
    /// The requested limit exceeds the limit of a manifest.
    #[error("a limit of {entry_limit} shards exceeds the {max} that a run may start with")]
    EntryLimitExceedsManifestMax {
        /// The requested limit.
        entry_limit: usize,
        /// The limit of a manifest.
        max: usize,
    },
    /// There is no room for the additional shards.
    #[error("{additional} more shards beside {current} exceed {limit}")]
    CapacityExceeded {
        /// The limit.
        limit: usize,
        /// The staged shards.
        current: usize,
        /// The additional shards.
        additional: usize,
    },
    /// One split would make too many shards.
    #[error("a split into {requested} shards exceeds {limit}")]
    FanOutExceeded {
        /// The limit.
        limit: usize,
        /// The requested shards.
        requested: usize,
    },
    /// The arena is full.
    #[error("the arena is full")]
    SlabFull(#[source] SlabFull),
    /// A range is invalid.
    #[error("the range makes no valid shard")]
    RangeInvalid(#[source] ShardSpecInputError),
    /// A prefix is invalid.
    #[error("the prefix makes no valid shard")]
    PrefixInvalid(#[source] PrefixShardError),
    /// A row range is invalid.
    #[error("the rows make no valid shard")]
    ManifestCtorInvalid(#[source] ShardSpecInputError),
    /// A given spec is invalid.
    #[error("the spec is invalid")]
    SpecInvalid(#[source] ShardSpecInputError),
    /// A handle was freed, or belongs to another arena.
    #[error("the handle names no spec in this builder's arena")]
    InvalidSpecHandle,
    /// The shards are valid by themselves but not as a manifest.
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
