//! Sinks: where results go.
//!
//! A sink keeps one segment per shard and fence. Appended bytes count once a committed cursor names
//! them; see [`crate::extent`].

use std::future::Future;
use std::io;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};

use crate::extent::Extent;

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The file system or object store failed.
    #[error("{location}: {error}")]
    Io {
        /// The segment or folder.
        location: String,
        /// The error.
        error: io::Error,
    },
    /// A segment does not hold what was committed.
    #[error("{location} does not hold the committed results: {problem}")]
    Damaged {
        /// The segment or folder.
        location: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The shard has the maximum number of extents, all on other machines.
    #[error(
        "the results of shard {shard} are in too many segments of other machines; start a worker \
         on one of those machines, which merges its own segments"
    )]
    Scattered {
        /// The shard.
        shard: ShardId,
    },
}

/// Stores results.
pub trait Sink: Send + Sync + 'static {
    /// The segment that a holder appends to.
    type Segment: Segment;

    /// Starts the empty segment of a shard and fence.
    fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> impl Future<Output = Result<Self::Segment, SinkError>> + Send;

    /// Reads an extent piece by piece, and checks its digest at the end.
    fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Whether only another machine can read an extent.
    fn is_elsewhere(&self, _run: RunId, _extent: &Extent) -> bool {
        false
    }

    /// Deletes the segments of a run.
    fn discard(&self, run: RunId) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// The segment that a holder appends to.
pub trait Segment: Send + 'static {
    /// Appends the result of an item, not yet durable.
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError>;

    /// Appends bytes copied from another segment, which hold the results of `items` items.
    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError>;

    /// Makes the appended bytes durable; returns none if the segment is empty.
    fn sync(&mut self) -> impl Future<Output = Result<Option<Extent>, SinkError>> + Send;
}

/// Discards results, for handlers whose effects are elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullSink;

impl Sink for NullSink {
    type Segment = Self;

    async fn begin(&self, _: ShardKey, _: FenceEpoch) -> Result<Self, SinkError> {
        Ok(Self)
    }

    async fn read(
        &self,
        _: RunId,
        _: Extent,
        _: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        Ok(())
    }

    async fn discard(&self, _: RunId) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Segment for NullSink {
    fn append(&mut self, _: &[u8]) -> Result<(), SinkError> {
        Ok(())
    }

    fn append_copied(&mut self, _: &[u8], _: u64) -> Result<(), SinkError> {
        Ok(())
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        Ok(None)
    }
}
