use shardwright_contracts::ShardId;
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{CoordError, InfraError, RunStatus};
use shardwright_frontier::HintedSplitError;

use crate::connector::ConnectorError;
use crate::extent::TokenEnvelopeError;
use crate::sink::SinkError;

/// Why a worker stopped. The shards it held are released at the latest when their leases
/// expire.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The run was ended by another process or an operator.
    #[error("the run has ended with status {status:?}")]
    RunEnded {
        /// Its status.
        status: RunStatus,
    },
    /// The store failed, or did not answer in time.
    #[error(transparent)]
    Store(#[from] InfraError),
    /// The run protocol rejected an operation that should not fail.
    #[error(transparent)]
    Coordination(Box<CoordError>),
    /// The run protocol rejected an operation on a shard.
    #[error("shard {shard}: {error}")]
    Refused {
        /// The shard.
        shard: ShardId,
        /// The rejection.
        error: Box<CoordError>,
    },
    /// The source failed.
    #[error("the source cannot be read")]
    Source(#[from] ConnectorError),
    /// Results could not be written.
    #[error("the results cannot be written")]
    Sink(#[from] SinkError),
    /// A shard's cursor was not written by a worker.
    #[error("shard {shard}: {error}")]
    ForeignCursor {
        /// The shard.
        shard: ShardId,
        /// What is wrong with its token.
        error: TokenEnvelopeError,
    },
    /// A shard's metadata is not a hint that this program knows, or not one of its range. No item
    /// of the shard was processed.
    #[error("shard {shard}: its metadata does not describe its range")]
    Metadata {
        /// The shard.
        shard: ShardId,
        /// What is wrong with its metadata.
        source: HintedSplitError,
    },
    /// A failing item cannot be parked, because the limit of shards is reached. What is done is
    /// committed; the item is the next to be processed.
    #[error(
        "too many items are parked: {item} failed as well, and cannot be parked ({reason}); fix \
         what makes them fail and start again. No item is lost"
    )]
    TooManyParked {
        /// The item's name.
        item: String,
        /// The rejection.
        reason: SplitInvalid,
    },
    /// The failure of an item could not be recorded, and the item cannot be parked.
    #[error("shard {shard}: the failure of an item cannot be recorded: {detail}")]
    Unrecorded {
        /// The shard.
        shard: ShardId,
        /// What went wrong.
        detail: String,
    },
    /// The handler fails for any item on this machine. What is done is committed; the item is the
    /// next to be processed.
    #[error("no item can be processed: {detail}; fix this and start again. No item is lost")]
    Handler {
        /// What is missing.
        detail: String,
    },
    /// A task of the worker panicked.
    #[error("a task of the worker panicked")]
    SlotDied,
}

impl WorkerError {
    pub(crate) fn coordination(error: impl Into<CoordError>) -> Self {
        match error.into() {
            CoordError::BackendError(error) => Self::Store(error),
            error => Self::Coordination(Box::new(error)),
        }
    }
}
