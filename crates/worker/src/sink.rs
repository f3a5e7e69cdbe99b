//! Where results go.
//!
//! A sink keeps one segment per shard and fence. What was appended counts when a committed cursor
//! names it; see [`crate::extent`].

mod discard;

use std::future::Future;
use std::io;

pub use discard::NullSink;
use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};

use crate::extent::Extent;

/// Why results could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// The place of results failed.
    #[error("{place}: {error}")]
    Io {
        /// Where.
        place: String,
        /// What it said.
        error: io::Error,
    },
    /// A segment holds less than was made durable, or something else.
    #[error("{place} does not hold the results that were committed: {problem}")]
    Damaged {
        /// Where.
        place: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A shard's results are on other machines, in as many pieces as there may be.
    #[error(
        "the results of shard {shard} are in too many pieces, all of them on other machines: let \
         one of those go on with it, which brings its own together"
    )]
    Scattered {
        /// Which.
        shard: ShardId,
    },
}

/// A place for results.
pub trait Sink: Send + Sync + 'static {
    /// What a holder appends to.
    type Segment: Segment;

    /// Begins the segment of a shard and fence, empty.
    fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> impl Future<Output = Result<Self::Segment, SinkError>> + Send;

    /// Reads the bytes of an extent piece by piece, and checks them when all are read.
    fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Whether an extent lies on another machine, and only that one can read it.
    fn is_elsewhere(&self, _run: RunId, _extent: &Extent) -> bool {
        false
    }

    /// Takes away the segments of a run.
    fn discard(&self, run: RunId) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// What a holder appends to.
pub trait Segment: Send + 'static {
    /// Appends the result of an item. It need not be durable yet.
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError>;

    /// Counts results that were appended as `bytes` of a copy.
    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError>;

    /// Makes durable what was appended; nothing if nothing ever was.
    fn sync(&mut self) -> impl Future<Output = Result<Option<Extent>, SinkError>> + Send;
}
