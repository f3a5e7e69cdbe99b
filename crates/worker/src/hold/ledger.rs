//! What is done of a shard, and how much of it is committed.

use std::time::Duration;

use shardwright_contracts::{FenceEpoch, ShardKey};

use crate::erased::{DynSegment, DynSink};
use crate::extent::{Extent, MAX_EXTENTS, TokenEnvelope};
use crate::options::WorkerOptions;
use crate::sink::SinkError;

/// A commit may take at most one part in so many of the time.
const COMMIT_SHARE: u32 = 10;

/// The retries of an item, and whether it failed in the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tries {
    pub(super) retries: u32,
    /// Whether it failed, and cannot be parked.
    pub(super) has_failed: bool,
}

/// What is done of a shard, and how much of it is committed.
pub(super) struct Ledger {
    shard: ShardKey,
    fence: FenceEpoch,
    segment: Option<Box<dyn DynSegment>>,
    /// Extents of earlier holders.
    earlier: Vec<Extent>,
    envelope: TokenEnvelope,
    /// The last key that is done.
    done: Option<Vec<u8>>,
    committed: Option<Vec<u8>>,
    uncommitted_items: u64,
    committed_at: Duration,
    /// How long the last commit took.
    commit_cost: Duration,
}

impl Ledger {
    pub(super) fn new(
        shard: ShardKey,
        fence: FenceEpoch,
        done: Option<Vec<u8>>,
        envelope: TokenEnvelope,
        now: Duration,
    ) -> Self {
        Self {
            shard,
            fence,
            segment: None,
            earlier: envelope.extents.clone(),
            envelope,
            committed: done.clone(),
            done,
            uncommitted_items: 0,
            committed_at: now,
            commit_cost: Duration::ZERO,
        }
    }

    pub(super) const fn envelope(&self) -> &TokenEnvelope {
        &self.envelope
    }

    pub(super) fn done(&self) -> Option<&[u8]> {
        self.done.as_deref()
    }

    /// Whether there are results that no committed cursor names.
    pub(super) const fn has_uncommitted(&self) -> bool {
        self.uncommitted_items > 0
    }

    pub(super) fn committed(&self) -> Option<&[u8]> {
        self.committed.as_deref()
    }

    async fn segment(&mut self, sink: &dyn DynSink) -> Result<&mut dyn DynSegment, SinkError> {
        let segment = match self.segment.take() {
            Some(segment) => segment,
            None => sink.begin(self.shard, self.fence).await?,
        };
        Ok(&mut **self.segment.insert(segment))
    }

    /// Copies the extents of earlier holders into one segment, if there are more than `most`.
    pub(super) async fn gather(
        &mut self,
        sink: &dyn DynSink,
        most: usize,
    ) -> Result<(), SinkError> {
        // This holder adds one more.
        if self.earlier.len() < most.min(MAX_EXTENTS) {
            return Ok(());
        }
        let run = self.shard.run;
        let extents = std::mem::take(&mut self.earlier).into_iter();
        let (remote, local): (Vec<_>, _) =
            extents.partition(|extent| sink.is_elsewhere(run, extent));
        self.earlier = remote;
        if self.earlier.len() >= MAX_EXTENTS {
            return Err(SinkError::Scattered { shard: self.shard.shard });
        }
        let segment = self.segment(sink).await?;
        for extent in local {
            let mut failure = None;
            let mut piece = |bytes: &[u8]| {
                if let Err(error) = segment.append_copied(bytes, 0) {
                    failure.get_or_insert(error);
                }
                Ok(())
            };
            sink.read(run, extent, &mut piece).await?;
            if let Some(error) = failure {
                return Err(error);
            }
            segment.append_copied(&[], extent.items)?;
        }
        Ok(())
    }

    /// Records the result of the next item. Everything up to it is done then.
    pub(super) async fn enter(
        &mut self,
        sink: &dyn DynSink,
        key: &[u8],
        bytes: u64,
        tries: Tries,
        result: &[u8],
    ) -> Result<(), SinkError> {
        if !result.is_empty() {
            self.segment(sink).await?.append(result)?;
        }
        self.envelope.items += 1;
        self.envelope.bytes = self.envelope.bytes.saturating_add(bytes);
        self.envelope.retries += u64::from(tries.retries);
        self.envelope.failed += u64::from(tries.has_failed);
        self.uncommitted_items += 1;
        match &mut self.done {
            Some(done) => key.clone_into(done),
            none => *none = Some(key.to_vec()),
        }
        Ok(())
    }

    /// Makes results durable, and returns the token that names them.
    pub(super) async fn seal(&mut self, connector_token: &[u8]) -> Result<Vec<u8>, SinkError> {
        self.envelope.extents.clone_from(&self.earlier);
        if let Some(segment) = &mut self.segment {
            self.envelope.extents.extend(segment.sync().await?);
        }
        connector_token.clone_into(&mut self.envelope.connector);
        Ok(self.envelope.encode())
    }

    /// Records that the last sealed token was committed with the cursor at `key`.
    pub(super) fn note_committed(&mut self, key: &[u8], now: Duration, cost: Duration) {
        self.committed = Some(key.to_vec());
        self.uncommitted_items = 0;
        (self.committed_at, self.commit_cost) = (now, cost);
    }

    fn interval(&self, options: &WorkerOptions) -> Duration {
        options.commit_interval.max(self.commit_cost.saturating_mul(COMMIT_SHARE))
    }

    /// Whether it is time to commit, provided that something is done. The `in_hand` items that are
    /// or may soon be in progress count as well, because a kill would repeat all of them.
    pub(super) fn is_due(&self, now: Duration, in_hand: u64, options: &WorkerOptions) -> bool {
        let most = options.commit_items.max(1);
        // Very many items in progress are no reason to commit by themselves.
        let is_enough = self.uncommitted_items.saturating_mul(2) >= most;
        is_enough && self.uncommitted_items.saturating_add(in_hand) >= most
            || now.saturating_sub(self.committed_at) >= self.interval(options)
    }

    /// Time until the next commit may be due.
    pub(super) fn until_due(&self, now: Duration, options: &WorkerOptions) -> Duration {
        let left = self.interval(options).saturating_sub(now.saturating_sub(self.committed_at));
        if left.is_zero() { self.interval(options) } else { left }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io;
    use std::sync::{Arc, Mutex};

    use shardwright_contracts::{RunId, ShardId};

    use super::*;
    use crate::sink::{Segment, Sink};

    const SHARD: ShardKey = ShardKey::new(RunId::from_raw(1), ShardId::from_raw(2));

    type Segments = Arc<Mutex<BTreeMap<FenceEpoch, Vec<u8>>>>;

    /// The segments of one machine. Extents of other machines are not readable.
    #[derive(Default)]
    struct LocalSink(Segments);

    struct Kept {
        segments: Segments,
        extent: Extent,
    }

    impl Sink for LocalSink {
        type Segment = Kept;

        async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<Kept, SinkError> {
            let extent = Extent { shard: shard.shard, fence, length: 0, items: 0, digest: [0; 32] };
            Ok(Kept { segments: Arc::clone(&self.0), extent })
        }

        async fn read(
            &self,
            _: RunId,
            extent: Extent,
            piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
        ) -> Result<(), SinkError> {
            let bytes = self.0.lock().unwrap().get(&extent.fence).cloned().unwrap_or_default();
            piece(&bytes).map_err(|error| SinkError::Io { location: "memory".to_owned(), error })
        }

        fn is_elsewhere(&self, _: RunId, extent: &Extent) -> bool {
            !self.0.lock().unwrap().contains_key(&extent.fence)
        }

        async fn discard(&self, _: RunId) -> Result<(), SinkError> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
    }

    impl Segment for Kept {
        fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
            Segment::append_copied(self, result, 1)
        }

        fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
            let mut segments = self.segments.lock().unwrap();
            segments.entry(self.extent.fence).or_default().extend_from_slice(bytes);
            self.extent.length += bytes.len() as u64;
            self.extent.items += items;
            Ok(())
        }

        async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
            Ok(Some(self.extent))
        }
    }

    fn fence(raw: usize) -> FenceEpoch {
        FenceEpoch::from_raw(raw as u64).unwrap()
    }

    fn remote(raw: usize) -> Extent {
        let (shard, fence) = (SHARD.shard, fence(raw));
        Extent { shard, fence, length: 9, items: 3, digest: [0; 32] }
    }

    fn ledger(extents: Vec<Extent>) -> Ledger {
        let envelope = TokenEnvelope { extents, ..TokenEnvelope::default() };
        Ledger::new(SHARD, fence(MAX_EXTENTS + 2), None, envelope, Duration::ZERO)
    }

    #[tokio::test]
    async fn gathering_leaves_remote_extents_alone() {
        let sink = LocalSink::default();
        let mut extents: Vec<Extent> = (1..MAX_EXTENTS - 1).map(remote).collect();
        for raw in [MAX_EXTENTS - 1, MAX_EXTENTS] {
            let mut segment = Sink::begin(&sink, SHARD, fence(raw)).await.unwrap();
            Segment::append(&mut segment, b"one\n").unwrap();
            extents.push(Segment::sync(&mut segment).await.unwrap().unwrap());
        }
        let mut ledger = ledger(extents);
        ledger.gather(&sink, MAX_EXTENTS).await.unwrap();
        let token = ledger.seal(&[]).await.unwrap();
        let extents = TokenEnvelope::decode(Some(&token)).unwrap().extents;
        assert_eq!(extents.len(), MAX_EXTENTS - 1);
        let last = extents.last().unwrap();
        assert_eq!((last.fence, last.items, last.length), (fence(MAX_EXTENTS + 2), 2, 8));
    }

    #[tokio::test]
    async fn too_many_remote_extents_are_an_error() {
        let sink = LocalSink::default();
        let mut ledger = ledger((1..=MAX_EXTENTS).map(remote).collect());
        let gathered = ledger.gather(&sink, MAX_EXTENTS).await;
        assert!(matches!(gathered, Err(SinkError::Scattered { .. })), "{gathered:?}");
    }
}
