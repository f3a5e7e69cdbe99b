//! Segments, wherever results go.

use std::io;

use shardwright_contracts::{FenceEpoch, RunId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{
    FileSegment, FolderSink, ObjectSegment, ObjectSink, Segment, Sink, SinkError,
};

/// Whichever place was chosen.
pub(crate) enum AnySink {
    Folder(FolderSink),
    Objects(ObjectSink),
}

/// A segment there.
pub(crate) enum AnySegment {
    File(FileSegment),
    Objects(ObjectSegment),
}

impl Sink for AnySink {
    type Segment = AnySegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<AnySegment, SinkError> {
        Ok(match self {
            Self::Folder(sink) => AnySegment::File(sink.begin(shard, fence).await?),
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
            Self::Folder(sink) => sink.read(run, extent, piece).await,
            Self::Objects(sink) => sink.read(run, extent, piece).await,
        }
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        match self {
            Self::Folder(sink) => sink.discard(run).await,
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
