//! How a worker releases its shards: at a stop, a pause, a kill, and a failure of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use shardwright_connectors::{FileSegment, FolderSink};
use shardwright_contracts::CursorSemantics::{Completed, Dispatched};
use shardwright_contracts::{FenceEpoch, OpId, RunId, ShardKey};
use shardwright_coordination::AsyncRunManagement;
use shardwright_worker::connector::Item;
use shardwright_worker::extent::Extent;
use shardwright_worker::sink::{Sink, SinkError};
use shardwright_worker::{
    Handler, Observer, RunOutcome, StopSignal, Worker, WorkerError, WorkerEvent, WorkerOptions,
    each,
};
use tokio::sync::{Barrier, Notify};
use tokio::time::timeout;

use crate::support::{
    Coordinator, Journal, LONG, Numbers, RUN, TENANT, all, env, finish, join, line, number,
    results, shards, sink, start, start_with_lease, worker_with, write_keys,
};

fn commit_often() -> WorkerOptions {
    WorkerOptions { commit_interval: Duration::from_millis(1), ..WorkerOptions::default() }
}

/// Notifies when the cursor has reached a number.
struct Reached {
    number: usize,
    reached: Arc<Notify>,
}

impl Observer for Reached {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Committed { key, .. } = event
            && number(key) == self.number
        {
            self.reached.notify_one();
        }
    }
}

/// A handler that finishes an item only after the cursor has reached it and `then` is done.
fn delayed<F: Future<Output = ()> + Send + 'static>(
    at: usize,
    reached: Arc<Notify>,
    then: impl Fn() -> F + Send + Sync + 'static,
) -> impl Handler {
    let then = Arc::new(then);
    each(move |item: Item| {
        let (reached, then) = (Arc::clone(&reached), Arc::clone(&then));
        async move {
            if number(&item.key) == at {
                reached.notified().await;
                then().await;
            }
            Ok(line(&item))
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_before_the_cursor_are_kept_at_a_stop() {
    let coordinator = start(4, 1, Dispatched).await;
    let (_folder, sink) = sink();
    let (stop, reached) = (StopSignal::default(), Arc::new(Notify::new()));
    let stopping = stop.clone();
    let handler = delayed(1, Arc::clone(&reached), move || {
        stopping.stop();
        std::future::ready(())
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(commit_often())
        .stop(stop)
        .observer(Arc::new(Reached { number: 1, reached }));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Stopped);
    assert_eq!(results(&coordinator, &sink).await, all(2));
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(4));
}

/// Waits until the lease of the only shard has been renewed.
async fn renewal(coordinator: &Coordinator) {
    let deadline = || async {
        let shards = shards(coordinator).await;
        shards[0].head.lease.map(|lease| lease.deadline)
    };
    let before = deadline().await;
    while deadline().await == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_before_the_cursor_are_kept_at_a_pause() {
    let coordinator = start_with_lease(4, 1, Dispatched, 2_000).await;
    let (_folder, sink) = sink();
    let (stop, reached) = (StopSignal::default(), Arc::new(Notify::new()));
    let pausing = coordinator.clone();
    let handler = delayed(1, Arc::clone(&reached), move || {
        let pausing = pausing.clone();
        async move {
            pausing.pause_run(TENANT, RUN, OpId::from_raw(5)).await.unwrap();
            // At the second renewal the worker has processed the reply to the first.
            renewal(&pausing).await;
            renewal(&pausing).await;
        }
    });
    let released = Arc::new(Notify::new());
    let observer = Arc::new(Released {
        reached: Reached { number: 1, reached },
        released: Arc::clone(&released),
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(commit_often())
        .stop(stop.clone())
        .observer(observer);
    let working = tokio::spawn(worker.run());
    timeout(LONG, released.notified()).await.unwrap();
    stop.stop();
    assert_eq!(working.await.unwrap().unwrap(), RunOutcome::Stopped);
    assert_eq!(results(&coordinator, &sink).await, all(2));
    coordinator.resume_run(TENANT, RUN, OpId::from_raw(6)).await.unwrap();
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(4));
}

/// Notifies also when a shard was released.
struct Released {
    reached: Reached,
    released: Arc<Notify>,
}

impl Observer for Released {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Released { .. } = event {
            self.released.notify_one();
        }
        self.reached.event(slot, event);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_loses_only_dispatched_items() {
    let coordinator = start(6, 1, Dispatched).await;
    let (_folder, sink) = sink();
    let (reached, stuck) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = join(&coordinator).await;
    let sticking = Arc::clone(&stuck);
    let handler = delayed(2, Arc::clone(&reached), move || {
        sticking.notify_one();
        std::future::pending()
    });
    let worker = worker_with(first.clone(), handler, &sink)
        .options(commit_often())
        .observer(Arc::new(Reached { number: 2, reached }));
    let working = tokio::spawn(worker.run());
    timeout(LONG, stuck.notified()).await.unwrap();
    working.abort();
    // Aborting the caller leaves the task of the slot. Closing the session ends its leases.
    first.close().await.unwrap();
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    let lost = "000002".to_owned();
    let kept: Vec<String> = all(6).into_iter().filter(|key| *key != lost).collect();
    assert_eq!(results(&coordinator, &sink).await, kept);
}

/// The shards that the disk is full for.
type FullFor = fn(u64) -> bool;

/// A disk that is full for some shards.
#[derive(Clone)]
struct FullDisk {
    sink: FolderSink,
    is_full_for: FullFor,
}

impl Sink for FullDisk {
    type Segment = FileSegment;

    async fn begin(&self, shard: ShardKey, fence: FenceEpoch) -> Result<FileSegment, SinkError> {
        if (self.is_full_for)(shard.shard.as_raw()) {
            let error = io::ErrorKind::StorageFull.into();
            return Err(SinkError::Io { location: "a full disk".to_owned(), error });
        }
        self.sink.begin(shard, fence).await
    }

    async fn read(
        &self,
        run: RunId,
        extent: Extent,
        piece: &mut (dyn FnMut(&[u8]) -> io::Result<()> + Send),
    ) -> Result<(), SinkError> {
        self.sink.read(run, extent, piece).await
    }

    async fn discard(&self, run: RunId) -> Result<(), SinkError> {
        self.sink.discard(run).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_on_a_full_disk_do_not_count_as_crashes() {
    let coordinator = start(5, 1, Completed).await;
    let (_folder, sink) = sink();
    let journal = Journal::default();
    for _ in 0..10 {
        let worker = Worker::builder(TENANT, RUN)
            .backend(join(&coordinator).await)
            .connector(Numbers)
            .handler(write_keys())
            .sink(FullDisk { sink: sink.clone(), is_full_for: |_| true })
            .env(env())
            .options(WorkerOptions { crash_limit: 2, ..WorkerOptions::default() })
            .observer(Arc::new(journal.clone()));
        let outcome = timeout(LONG, worker.run()).await.unwrap();
        assert!(matches!(outcome, Err(WorkerError::Sink(_))), "{outcome:?}");
    }
    assert_eq!((journal.count("claimed"), journal.count("released")), (10, 10));
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_one_slot_fails_the_others_release_their_shards() {
    // Either slot may have the failing shard. The other works until it is stopped.
    for (is_full_for, failing) in [(is_first as FullFor, 0..2), (is_second as FullFor, 2..4)] {
        let coordinator = start(4, 2, Completed).await;
        let (_folder, sink) = sink();
        let stop = StopSignal::default();
        let stopping = stop.clone();
        let both = Arc::new(Barrier::new(2));
        let handler = each(move |item: Item| {
            let (stopping, both) = (stopping.clone(), Arc::clone(&both));
            let failing = failing.clone();
            async move {
                let number = number(&item.key);
                // So that each slot has one of the shards.
                if number.is_multiple_of(2) {
                    both.wait().await;
                }
                if !failing.contains(&number) {
                    stopping.stopped().await;
                }
                Ok(line(&item))
            }
        });
        let worker = Worker::builder(TENANT, RUN)
            .backend(coordinator.clone())
            .connector(Numbers)
            .handler(handler)
            .sink(FullDisk { sink: sink.clone(), is_full_for })
            .env(env())
            .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
            .stop(stop);
        let outcome = timeout(LONG, worker.run()).await.unwrap();
        assert!(matches!(outcome, Err(WorkerError::Sink(_))), "{outcome:?}");
        assert!(shards(&coordinator).await.iter().all(|shard| shard.head.lease.is_none()));
        assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(4));
    }
}

const fn is_first(shard: u64) -> bool {
    shard == 0
}

const fn is_second(shard: u64) -> bool {
    shard == 1
}
