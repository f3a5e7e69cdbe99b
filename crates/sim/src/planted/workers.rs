//! Bugs planted around the worker loop, and those in its sink, its source and its environment.

use std::io;
use std::time::Duration;

use shardwright_contracts::{BoxFuture, Env, FenceEpoch, LogicalTime, RunId, ShardKey};
use shardwright_worker::connector::{
    Connector, ConnectorError, KeyRange, Page, PageLimit, Position, Quantity, SourceEstimate,
};
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Segment, Sink, SinkError};

use super::bugs;
use crate::oracle::Finding;
use crate::runtime::env::SimEnv;
use crate::workers::sink::{SharedSegment, SharedSink, failed};
use crate::workers::source::{Numbers, first_at, key};
use crate::workers::{ACTS, live_with};

bugs! {
    /// A bug around the worker loop.
    WorkerBug, within 200 seeds, in worlds of live {
        RenewalDropped: Backend, 0, "no work beyond the lease" =
            "a renewal is dropped and answered as done";
        CheckpointDropped: Backend, 1, "all work is done after faults" =
            "a checkpoint is dropped and answered as applied";
        CheckpointAhead: Backend, 0, "no cursor passes an unresolved item" =
            "a checkpoint moves the cursor one item further";
        TriesForgotten: Backend, 8, "tries survive a crash" =
            "a split that sets an item aside stores none of its tries";
        CompletionDropped: Backend, 0, "all work is done after faults" =
            "the completion of a shard is dropped and answered as applied";
        SplitDropped: Backend, 0, "no item is lost" =
            "a split is dropped and answered as applied";
        SplitEarly: Backend, 0, "one holder works on an item" =
            "a split gives away the items in progress";
        SplitRequestDropped: Backend, 0, "stragglers are split" =
            "a split request is dropped and answered as made";
        SuccessWithoutResult: Handler, 0, "no item is lost" =
            "the handler reports success for some items without a result";
        BatchHandedTwice: Handler, 0, "no work is repeated without a fault" =
            "the handler gets every batch twice";
        OutcomesReversed: Handler, 2, "results count once" =
            "the handler returns the outcomes of a batch in reverse order";
        HandlerStuck: Handler, 0, "all work is done after faults" =
            "the handler never returns for some items";
        HandlerPanics: Handler, 0, "assertions" = "the handler panics for some items";
        ResultDoubled: Sink, 0, "results count once" = "the sink appends some results twice";
        ResultDropped: Sink, 0, "no item is lost" =
            "the sink accepts some results and keeps none of them";
        SyncSkipped: Sink, 0, "named results are durable" =
            "the sink acknowledges a sync before the bytes are durable";
        TailLost: Sink, 0, "named results are durable" =
            "the sink loses the last bytes of a durable segment";
        SegmentShared: Sink, 0, "stale results never count" =
            "the sink keeps one segment per shard, whatever the fence";
        SyncRefused: Sink, 0, "no work is repeated without a fault" =
            "the sink refuses every sync under an even fence";
        ItemSkipped: Source, 0, "no cursor passes an unresolved item" =
            "the source leaves an item out of its pages";
        ItemRepeated: Source, 0, "all work is done after faults" =
            "the source begins a page with the item before it";
        NothingLeft: Source, 0, "stragglers are split" =
            "the source estimates that nothing is left";
        SourceStuck: Source, 0, "all work is done after faults" =
            "the source fails permanently after some item";
        ClockStopped: Environment, 1, "no work beyond the lease" =
            "the monotonic clock does not advance";
        SleepsForever: Environment, 14, "all work is done after faults" =
            "a wait of more than 100 ms never ends";
    }
}

fn live(bug: WorkerBug, seed: u64) -> Vec<Finding> {
    live_with(seed, ACTS, false, Some(bug)).findings
}

/// A part of a worker's environment, with a bug if one is planted.
#[derive(Clone)]
pub(crate) struct Doctored<T> {
    pub(super) inner: T,
    pub(super) bug: Option<WorkerBug>,
}

impl<T> Doctored<T> {
    pub(crate) const fn new(inner: T, bug: Option<WorkerBug>) -> Self {
        Self { inner, bug }
    }
}

/// The longest wait that ends.
const LONGEST: Duration = Duration::from_millis(100);

impl Env for Doctored<SimEnv> {
    fn wall_clock(&self) -> LogicalTime {
        self.inner.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        match self.bug {
            Some(WorkerBug::ClockStopped) => Duration::from_secs(1_000),
            _ => self.inner.monotonic(),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let is_endless = self.bug == Some(WorkerBug::SleepsForever) && duration > LONGEST;
        let duration = if is_endless { Duration::MAX } else { duration };
        self.inner.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

/// Whether the bug affects this result.
const EACH_RESULT: usize = 7;

pub(super) fn is_hit(result: &[u8]) -> bool {
    result.iter().map(|byte| usize::from(*byte)).sum::<usize>().is_multiple_of(EACH_RESULT)
}

impl Sink for Doctored<SharedSink> {
    type Segment = Doctored<SharedSegment>;

    async fn begin(
        &self,
        shard: ShardKey,
        fence: FenceEpoch,
    ) -> Result<Doctored<SharedSegment>, SinkError> {
        let first = FenceEpoch::INITIAL;
        let segment = match self.bug {
            Some(WorkerBug::SegmentShared) => self.inner.reopen(shard, first),
            _ => self.inner.begin(shard, fence).await?,
        };
        Ok(Doctored::new(segment, self.bug))
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

impl Segment for Doctored<SharedSegment> {
    fn append(&mut self, result: &[u8]) -> Result<(), SinkError> {
        match self.bug {
            Some(WorkerBug::ResultDropped) if is_hit(result) => return Ok(()),
            Some(WorkerBug::ResultDoubled) if is_hit(result) => self.inner.append(result)?,
            _ => {}
        }
        self.inner.append(result)
    }

    fn append_copied(&mut self, bytes: &[u8], items: u64) -> Result<(), SinkError> {
        self.inner.append_copied(bytes, items)
    }

    async fn sync(&mut self) -> Result<Option<Extent>, SinkError> {
        if self.bug == Some(WorkerBug::SyncRefused) && self.inner.fence().as_raw().is_multiple_of(2)
        {
            return Err(failed());
        }
        let before = self.inner.durable();
        let extent = self.inner.sync().await?;
        match self.bug {
            Some(WorkerBug::SyncSkipped) => self.inner.set_durable(before),
            Some(WorkerBug::TailLost) => {
                let mut durable = self.inner.durable();
                durable.truncate(durable.len().saturating_sub(5));
                self.inner.set_durable(durable);
            }
            _ => {}
        }
        Ok(extent)
    }
}

/// Whether the bug affects this item.
pub(super) const EACH_ITEM: u64 = 13;

impl Connector for Doctored<Numbers> {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = self.inner.page(range, from, limit).await?;
        match self.bug {
            Some(WorkerBug::ItemSkipped) if page.items.len() > 1 => {
                page.items.retain(|item| !first_at(&item.key).is_multiple_of(EACH_ITEM));
            }
            Some(WorkerBug::ItemRepeated) if from.after.is_some() && !page.items.is_empty() => {
                let before = from.after.as_deref().map(first_at).unwrap_or_default();
                let again = Position::after(key(before.saturating_sub(1)));
                if before > first_at(&range.start) {
                    let limit = PageLimit { items: limit.items + 1, ..limit };
                    return self.inner.page(range, &again, limit).await;
                }
            }
            Some(WorkerBug::SourceStuck) => {
                let is_stuck = |number: u64| number.is_multiple_of(EACH_ITEM);
                if page.items.iter().any(|item| is_stuck(first_at(&item.key))) {
                    let source = "planted".into();
                    return Err(ConnectorError::Other { transient: false, source });
                }
            }
            _ => {}
        }
        Ok(page)
    }

    async fn estimate(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
    ) -> Result<SourceEstimate, ConnectorError> {
        let estimate = self.inner.estimate(range, after).await?;
        Ok(match self.bug {
            Some(WorkerBug::NothingLeft) => {
                SourceEstimate { items: Quantity::Exact(0), ..estimate }
            }
            _ => estimate,
        })
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        self.inner.propose_split(range, after, fraction).await
    }

    async fn initial_ranges(&self, wanted: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        self.inner.initial_ranges(wanted).await
    }
}
