//! How a worker ends what it holds, in good times and bad.

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

fn often() -> WorkerOptions {
    WorkerOptions { commit_interval: Duration::from_millis(1), ..WorkerOptions::default() }
}

/// Tells when the cursor has reached a number.
struct Reached {
    number: usize,
    told: Arc<Notify>,
}

impl Observer for Reached {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Committed { key, .. } = event
            && number(key) == self.number
        {
            self.told.notify_one();
        }
    }
}

/// A handler that does not end an item before the cursor stands at it and `then` is done.
fn held_up<F: Future<Output = ()> + Send + 'static>(
    at: usize,
    told: Arc<Notify>,
    then: impl Fn() -> F + Send + Sync + 'static,
) -> impl Handler {
    let then = Arc::new(then);
    each(move |item: Item| {
        let (told, then) = (Arc::clone(&told), Arc::clone(&then));
        async move {
            if number(&item.key) == at {
                told.notified().await;
                then().await;
            }
            Ok(line(&item))
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_done_behind_the_cursor_is_kept_at_a_stop() {
    let coordinator = start(4, 1, Dispatched).await;
    let (_folder, sink) = sink();
    let (stop, told) = (StopSignal::default(), Arc::new(Notify::new()));
    let stopping = stop.clone();
    let handler = held_up(1, Arc::clone(&told), move || {
        stopping.stop();
        std::future::ready(())
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(often())
        .stop(stop)
        .observer(Arc::new(Reached { number: 1, told }));
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
async fn what_is_done_behind_the_cursor_is_kept_at_a_pause() {
    let coordinator = start_with_lease(4, 1, Dispatched, 2_000).await;
    let (_folder, sink) = sink();
    let (stop, told) = (StopSignal::default(), Arc::new(Notify::new()));
    let pausing = coordinator.clone();
    let handler = held_up(1, Arc::clone(&told), move || {
        let pausing = pausing.clone();
        async move {
            pausing.pause_run(TENANT, RUN, OpId::from_raw(5)).await.unwrap();
            // Whoever renews a second time knows what the first renewal was answered.
            renewal(&pausing).await;
            renewal(&pausing).await;
        }
    });
    let released = Arc::new(Notify::new());
    let observer = Arc::new(Released {
        reached: Reached { number: 1, told },
        released: Arc::clone(&released),
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(often())
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

/// Tells as well when a shard was given back.
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
async fn a_kill_loses_what_was_handed_out_and_nothing_else() {
    let coordinator = start(6, 1, Dispatched).await;
    let (_folder, sink) = sink();
    let (told, stuck) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = join(&coordinator).await;
    let sticking = Arc::clone(&stuck);
    let handler = held_up(2, Arc::clone(&told), move || {
        sticking.notify_one();
        std::future::pending()
    });
    let worker = worker_with(first.clone(), handler, &sink)
        .options(often())
        .observer(Arc::new(Reached { number: 2, told }));
    let working = tokio::spawn(worker.run());
    timeout(LONG, stuck.notified()).await.unwrap();
    working.abort();
    // Aborting the caller leaves the slot's task; what it holds goes with its session.
    first.close().await.unwrap();
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    let lost = "000002".to_owned();
    let kept: Vec<String> = all(6).into_iter().filter(|key| *key != lost).collect();
    assert_eq!(results(&coordinator, &sink).await, kept);
}

/// Which shards there is no room for.
type FullFor = fn(u64) -> bool;

/// A disk that is full, as far as some shards are concerned.
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
            return Err(SinkError::Io { place: "a full disk".to_owned(), error });
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
async fn ten_starts_on_a_full_disk_make_no_item_look_like_a_killer() {
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
        let ending = timeout(LONG, worker.run()).await.unwrap();
        assert!(matches!(ending, Err(WorkerError::Sink(_))), "{ending:?}");
    }
    assert_eq!((journal.count("claimed"), journal.count("released")), (10, 10));
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_one_slot_cannot_go_on_the_others_give_back_what_they_have() {
    // Whichever slot has the shard that fails: the other works until it is told to stop.
    for (is_full_for, failing) in [(is_first as FullFor, 0..2), (is_second as FullFor, 2..4)] {
        let coordinator = start(4, 2, Completed).await;
        let (_folder, sink) = sink();
        let stop = StopSignal::default();
        let told = stop.clone();
        let both = Arc::new(Barrier::new(2));
        let handler = each(move |item: Item| {
            let (told, both, failing) = (told.clone(), Arc::clone(&both), failing.clone());
            async move {
                let number = number(&item.key);
                // Each slot has one of the shards by then.
                if number.is_multiple_of(2) {
                    both.wait().await;
                }
                if !failing.contains(&number) {
                    told.stopped().await;
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
        let ending = timeout(LONG, worker.run()).await.unwrap();
        assert!(matches!(ending, Err(WorkerError::Sink(_))), "{ending:?}");
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
