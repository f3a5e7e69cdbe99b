//! The sink of a run, by the location of its results.

use std::io;

use shardwright_connectors::{FileSegment, FolderSink};
use shardwright_contracts::{FenceEpoch, RunId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use crate::objects::{ObjectSegment, ObjectSink};

/// The sink, by location.
pub(crate) enum AnySink {
    Folder(FolderSink),
    /// A folder of this machine. Other machines have their own.
    Local(FolderSink),
    Objects(ObjectSink),
}

/// A segment of the sink.
pub(crate) enum AnySegment {
    File(FileSegment),
    Objects(ObjectSegment),
}

impl Sink for AnySink {
    type Segment = AnySegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<AnySegment, SinkError> {
        Ok(match self {
            Self::Folder(sink) | Self::Local(sink) => {
                AnySegment::File(sink.begin(shard, fence).await?)
            }
            Self::Objects(sink) => AnySegment::Objects(sink.begin(shard, fence).await?),
        })
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        match self {
            Self::Folder(sink) | Self::Local(sink) => sink.read(run, extent, piece).await,
            Self::Objects(sink) => sink.read(run, extent, piece).await,
        }
    }

    /// A fence has one owner, so only the machine that wrote a segment has it.
    fn is_elsewhere(&self, run: RunId, extent: &Extent) -> bool {
        match self {
            Self::Local(sink) => !sink.segment_path(run, extent.shard, extent.fence).exists(),
            Self::Folder(_) | Self::Objects(_) => false,
        }
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        match self {
            Self::Folder(sink) | Self::Local(sink) => sink.discard(run).await,
            Self::Objects(sink) => sink.discard(run).await,
        }
    }
}

impl Segment for AnySegment {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        match self {
            Self::File(segment) => segment.append(result),
            Self::Objects(segment) => segment.append(result),
        }
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        match self {
            Self::File(segment) => segment.append_copied(bytes, items),
            Self::Objects(segment) => segment.append_copied(bytes, items),
        }
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        match self {
            Self::File(segment) => segment.sync().await,
            Self::Objects(segment) => segment.sync().await,
        }
    }
}
