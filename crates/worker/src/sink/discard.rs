use std::io;

use shardwright_contracts::{FenceEpoch, RunId, ShardKey};

use super::{Segment, Sink, SinkError};
use crate::extent::Extent;

/// Keeps nothing, for handlers whose effects are elsewhere.
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
