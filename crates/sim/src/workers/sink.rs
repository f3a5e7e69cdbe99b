//! The scripted sink: segments whose bytes are lost with their holder until they are synced.

use std::io;

use shardwright_contracts::{FenceEpoch, RunId, ShardId, ShardKey};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use super::handler::items_in;
use super::observer::GATHERED;
use super::script::{Script, ScriptEvent};
use super::tally::WorkerFault;

/// The sink that all processes share.
#[derive(Clone)]
pub(crate) struct SharedSink {
    pub(crate) script: Script,
}

/// An open segment.
pub(crate) struct SharedSegment {
    script: Script,
    shard: ShardId,
    fence: FenceEpoch,
    bytes: Vec<u8>,
    items: u64,
}

pub(crate) fn failed() -> SinkError {
    SinkError::Io { location: "scripted sink".into(), error: io::Error::other("scripted") }
}

/// A digest of the bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (lane, out) in digest.chunks_exact_mut(8).enumerate() {
        let mut hash = 0xcbf2_9ce4_8422_2325 ^ lane as u64;
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        out.copy_from_slice(&hash.to_le_bytes());
    }
    digest
}

impl SharedSink {
    /// Opens a segment, which may exist already.
    pub(crate) fn reopen(&self, shard: ShardKey, fence: FenceEpoch) -> SharedSegment {
        let (script, shard) = (self.script.clone(), shard.shard);
        let bytes = script.lock().segments.get(&(shard, fence)).cloned().unwrap_or_default();
        let items = items_in(&bytes).len() as u64;
        SharedSegment { script, shard, fence, bytes, items }
    }
}

impl SharedSegment {
    pub(crate) const fn fence(&self) -> FenceEpoch {
        self.fence
    }

    /// The durable bytes of the segment.
    pub(crate) fn durable(&self) -> Vec<u8> {
        let state = self.script.lock();
        state.segments.get(&(self.shard, self.fence)).cloned().unwrap_or_default()
    }

    pub(crate) fn set_durable(&self, bytes: Vec<u8>) {
        self.script.lock().segments.insert((self.shard, self.fence), bytes);
    }
}

impl Sink for SharedSink {
    type Segment = SharedSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<SharedSegment, SinkError> {
        self.script.delay(500, 10, WorkerFault::SegmentSlow).await;
        let mut state = self.script.lock();
        if state.strikes(8, WorkerFault::SegmentRefused) {
            return Err(failed());
        }
        let shard = shard.shard;
        if state.segments.insert((shard, fence), Vec::new()).is_some() {
            state.script_events.push(ScriptEvent::CreatedTwice(shard, fence));
        }
        drop(state);
        let script = self.script.clone();
        Ok(SharedSegment { script, shard, fence, bytes: Vec::new(), items: 0 })
    }

    async fn read(
        &self,
        _: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        self.script.delay(500, 30, WorkerFault::ReadSlow).await;
        let mut state = self.script.lock();
        if state.strikes(30, WorkerFault::ReadFailed) {
            return Err(failed());
        }
        *state.events.entry(GATHERED).or_default() += 1;
        let segment = state.segments.get(&(extent.shard, extent.fence)).cloned();
        drop(state);
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        let bytes = segment.as_ref().and_then(|bytes| bytes.get(..length)).ok_or_else(failed)?;
        piece(bytes).map_err(|_| failed())
    }

    async fn discard(&self, _: RunId) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Segment for SharedSegment {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        self.append_copied(result, 1)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        if self.script.lock().strikes(3, WorkerFault::AppendFailed) {
            return Err(failed());
        }
        self.bytes.extend_from_slice(bytes);
        self.items += items;
        Ok(())
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        self.script.delay(2_000, 15, WorkerFault::SyncSlow).await;
        let mut state = self.script.lock();
        if state.strikes(6, WorkerFault::SyncFailed) {
            return Err(failed());
        }
        state.segments.insert((self.shard, self.fence), self.bytes.clone());
        if state.strikes(6, WorkerFault::SyncReplyLost) {
            return Err(failed());
        }
        let (length, items) = (self.bytes.len() as u64, self.items);
        let digest = digest(&self.bytes);
        Ok(Some(Extent { shard: self.shard, fence: self.fence, length, items, digest }))
    }
}
