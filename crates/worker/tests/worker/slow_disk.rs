//! A disk on which one call takes longer than a lease.

use std::io;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use shardwright_connectors::{FileSegment, FolderSink};
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{FenceEpoch, LogicalTime, RunId, ShardKey};
use shardwright_worker::connector::Item;
use shardwright_worker::extent::{Extent, MAX_EXTENTS, TokenEnvelope};
use shardwright_worker::sink::{Sink, SinkError};
use shardwright_worker::{RunOutcome, StopSignal, Worker, each};
use tokio::time::timeout;

use crate::support::{
    Coordinator, Journal, LONG, Numbers, RUN, TENANT, all, env, join, line, results, shards, sink,
    start_with_lease, worker_with, write_keys,
};

const LEASE_MS: u64 = 1_500;

/// Processes one item and releases the shard.
async fn do_one(coordinator: &Coordinator, sink: &FolderSink) {
    let stop = StopSignal::default();
    let stopping = stop.clone();
    let handler = each(move |item: Item| {
        stopping.stop();
        async move { Ok(line(&item)) }
    });
    let worker = worker_with(join(coordinator).await, handler, sink).stop(stop);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Stopped);
}

async fn deadline(coordinator: &Coordinator) -> Option<LogicalTime> {
    shards(coordinator).await[0].head.lease.map(|lease| lease.deadline)
}

/// Waits until a lease was renewed for more than twice its length.
async fn is_renewed(coordinator: &Coordinator) {
    let mut first = None;
    loop {
        if let Some(deadline) = deadline(coordinator).await {
            let first = *first.get_or_insert(deadline);
            if deadline.millis_since(first) > 2 * LEASE_MS {
                return;
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A sink on a disk that blocks reads of one segment until it may go on.
struct SlowSink {
    sink: FolderSink,
    slow: Extent,
    may_go_on: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Sink for SlowSink {
    type Segment = FileSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<FileSegment, SinkError> {
        self.sink.begin(shard, fence).await
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        if extent == self.slow {
            let may_go_on = Arc::clone(&self.may_go_on);
            let waited = move || may_go_on.lock().unwrap().recv_timeout(LONG);
            tokio::task::spawn_blocking(waited).await.unwrap().unwrap();
        }
        self.sink.read(run, extent, piece).await
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        self.sink.discard(run).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathering_results_from_a_slow_disk_keeps_the_lease() {
    let items = MAX_EXTENTS + 2;
    let coordinator = start_with_lease(items, 1, Completed, LEASE_MS).await;
    let (_folder, sink) = sink();
    for _ in 0..MAX_EXTENTS {
        do_one(&coordinator, &sink).await;
    }
    let shard = &shards(&coordinator).await[0];
    let extents = TokenEnvelope::decode(shard.cursor.as_update().token()).unwrap().extents;
    assert_eq!(extents.len(), MAX_EXTENTS);
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let may_go_on = Arc::new(Mutex::new(may_go_on));
    let slow = SlowSink { sink: sink.clone(), slow: extents[20], may_go_on };
    let journal = Journal::default();
    let worker = Worker::builder(TENANT, RUN)
        .backend(join(&coordinator).await)
        .connector(Numbers)
        .handler(write_keys())
        .sink(slow)
        .env(env())
        .observer(Arc::new(journal.clone()));
    let working = tokio::spawn(worker.run());
    timeout(LONG, is_renewed(&coordinator)).await.unwrap();
    go_on.send(()).unwrap();
    assert_eq!(timeout(LONG, working).await.unwrap().unwrap().unwrap(), RunOutcome::Done);
    let events = ["claimed", "lost"].map(|kind| journal.count(kind));
    assert_eq!(events, [1, 0], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(items));
}
