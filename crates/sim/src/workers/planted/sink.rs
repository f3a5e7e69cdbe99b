use std::io;

use shardwright_contracts::{FenceEpoch, RunId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use super::{Doctored, Plant};
use crate::workers::sink::{Shelf, ShelfSegment, failed};

/// Which results are treated wrongly.
const EACH: usize = 7;

fn is_hit(result: &[u8]) -> bool {
    result.iter().map(|byte| usize::from(*byte)).sum::<usize>().is_multiple_of(EACH)
}

impl Sink for Doctored<Shelf> {
    type Segment = Doctored<ShelfSegment>;

    async fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> Result<Doctored<ShelfSegment>, SinkError> {
        let first = FenceEpoch::INITIAL;
        let segment = match self.plant {
            Some(Plant::SegmentShared) => self.inner.reopen(shard, first),
            _ => self.inner.begin(shard, fence).await?,
        };
        Ok(Doctored::new(segment, self.plant))
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        self.inner.read(run, extent, piece).await
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        self.inner.discard(run).await
    }
}

impl Segment for Doctored<ShelfSegment> {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        match self.plant {
            Some(Plant::ResultDropped) if is_hit(result) => return Ok(()),
            Some(Plant::ResultDoubled) if is_hit(result) => self.inner.append(result)?,
            _ => {}
        }
        self.inner.append(result)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        self.inner.append_copied(bytes, items)
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        if self.plant == Some(Plant::SyncRefused) && self.inner.fence().as_raw().is_multiple_of(2) {
            return Err(failed());
        }
        let before = self.inner.durable();
        let extent = self.inner.sync().await?;
        match self.plant {
            Some(Plant::SyncSkipped) => self.inner.set_durable(before),
            Some(Plant::TailLost) => {
                let mut durable = self.inner.durable();
                durable.truncate(durable.len().saturating_sub(5));
                self.inner.set_durable(durable);
            }
            _ => {}
        }
        Ok(extent)
    }
}
