use shardwright_contracts::ShardId;
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{CoordError, InfraError, RunStatus};

use crate::connector::ConnectorError;
use crate::extent::TokenEnvelopeError;
use crate::sink::SinkError;

/// Why a worker gave up. Whatever it held has been given back or will be when its lease ends.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The run has been ended by somebody.
    #[error("the run has ended: it is {status:?}")]
    RunEnded {
        /// As what.
        status: RunStatus,
    },
    /// The store failed, or did not answer for too long.
    #[error(transparent)]
    Store(#[from] InfraError),
    /// The run protocol refused something that a worker does not expect to be refused.
    #[error(transparent)]
    Coordination(Box<CoordError>),
    /// The run protocol refused an operation on a shard.
    #[error("shard {shard}: {error}")]
    Refused {
        /// The shard.
        shard: ShardId,
        /// What it said.
        error: Box<CoordError>,
    },
    /// The source failed.
    #[error("the source cannot be read")]
    Source(#[from] ConnectorError),
    /// The results could not be written.
    #[error("the results cannot be written")]
    Sink(#[from] SinkError),
    /// A shard's cursor is of something else.
    #[error("shard {shard}: {error}")]
    ForeignCursor {
        /// The shard.
        shard: ShardId,
        /// What is wrong with it.
        error: TokenEnvelopeError,
    },
    /// A failing item cannot be set aside, because there is no room for another shard. What was
    /// done is committed, and the item is the next to be worked on.
    #[error(
        "too many items are parked: {item} failed as well, and cannot be set aside ({reason}); \
         nothing is lost: mend what makes them fail, and start again"
    )]
    TooManyParked {
        /// What the item is called.
        item: String,
        /// What the run protocol said.
        reason: SplitInvalid,
    },
    /// The result of a failed item could not be written, and the item cannot be set aside.
    #[error("shard {shard}: the failure of an item cannot be recorded: {detail}")]
    Unrecorded {
        /// The shard.
        shard: ShardId,
        /// What went wrong.
        detail: String,
    },
    /// The handler fails for any item on this machine. What is done is committed; the item is the
    /// next to be processed.
    #[error("no item can be worked on: {detail}; nothing is lost: mend that, and start again")]
    Handler {
        /// What is missing.
        detail: String,
    },
    /// A part of the worker died.
    #[error("a part of the worker stopped without a word")]
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
