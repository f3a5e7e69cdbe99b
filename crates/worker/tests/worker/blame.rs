//! Which items are blamed for losses and failures, and which are not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{Env as _, WorkerId};
use shardwright_coordination::{AsyncShardClaiming as _, ParkReason, ShardLimits};
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Batch, Outcome};
use shardwright_worker::{
    Handler, ItemFailure, Observer, RetryPolicy, RunOutcome, StopSignal, WorkerError, WorkerEvent,
    WorkerOptions, each,
};
use tokio::sync::{Barrier, Semaphore};
use tokio::time::timeout;

use crate::support::{
    Coordinator, Hurried, Journal, LONG, RUN, TENANT, all, env, finish, join, key, line, number,
    results, shards, sink, start, start_with_limit, worker_with, write_keys,
};

/// Claims all shards and closes the session without progress, `times` times.
async fn lose(coordinator: &Coordinator, shards: usize, times: usize) {
    for _ in 0..times {
        let lost = join(coordinator).await;
        for _ in 0..shards {
            lost.claim_next_available(TENANT, RUN, WorkerId::from_raw(7)).await.unwrap();
        }
        lost.close().await.unwrap();
    }
}

/// A handler that finishes its first items only when it holds one of each shard.
fn together(shards: usize) -> impl Handler {
    let all = Arc::new(Barrier::new(shards));
    let is_met = Arc::new(AtomicBool::new(false));
    each(move |item: Item| {
        let (all, is_met) = (Arc::clone(&all), Arc::clone(&is_met));
        async move {
            if !is_met.load(Ordering::Relaxed) {
                all.wait().await;
                is_met.store(true, Ordering::Relaxed);
            }
            Ok(line(&item))
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_lost_once_are_processed_in_parallel() {
    let coordinator = start(6, 3, Completed).await;
    lose(&coordinator, 3, 1).await;
    let (_folder, sink) = sink();
    let worker = worker_with(coordinator.clone(), together(3), &sink)
        .options(WorkerOptions { slots: 3, ..WorkerOptions::default() });
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(6));
}

/// When shards were acquired.
struct Claims {
    env: Hurried,
    at: Mutex<Vec<Duration>>,
}

impl Observer for Claims {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Claimed { .. } = event {
            self.at.lock().unwrap().push(self.env.monotonic());
        }
    }
}

/// A machine dies while it processes many shards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_loss_of_all_shards_parks_nothing() {
    const SHARDS: usize = 8;
    let coordinator = start(80, SHARDS, Completed).await;
    let (_folder, sink) = sink();
    let started = Arc::new(Barrier::new(SHARDS + 1));
    let all_started = Arc::clone(&started);
    let handler = each(move |_: Item| {
        let all_started = Arc::clone(&all_started);
        async move {
            all_started.wait().await;
            std::future::pending().await
        }
    });
    // The lowest crash limit.
    let options = WorkerOptions { slots: SHARDS, crash_limit: 2, ..WorkerOptions::default() };
    let machine = join(&coordinator).await;
    let worker = worker_with(machine.clone(), handler, &sink).options(options);
    let working = tokio::spawn(worker.run());
    timeout(LONG, started.wait()).await.unwrap();
    working.abort();
    // Aborting the caller leaves the tasks of the slots. Closing the session ends their leases.
    machine.close().await.unwrap();
    let lost = shards(&coordinator).await;
    assert!(lost.iter().all(|shard| shard.head.acquires_without_progress == 1));
    let journal = Journal::default();
    let worker = worker_with(coordinator.clone(), write_keys(), &sink)
        .options(options)
        .observer(Arc::new(journal.clone()));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    assert_eq!((journal.count("parked"), journal.count("split")), (0, 0), "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(80));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_lost_twice_is_exclusive_for_a_limited_time() {
    let coordinator = start(4, 2, Completed).await;
    lose(&coordinator, 2, 2).await;
    let (_folder, sink) = sink();
    let env = Hurried(env());
    let claims = Arc::new(Claims { env: env.clone(), at: Mutex::default() });
    let worker = worker_with(coordinator.clone(), together(2), &sink)
        .env(env)
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
        .observer(Arc::clone(&claims) as Arc<dyn Observer>);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(4));
    let at = claims.at.lock().unwrap().clone();
    assert!(at[1] - at[0] >= Duration::from_secs(10), "{at:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_no_more_items_can_be_parked_the_worker_stops() {
    let limits = ShardLimits { per_tenant: 4, ..ShardLimits::default() };
    let coordinator = start_with_limit(20, 1, Completed, 10_000, limits).await;
    let (_folder, sink) = sink();
    let handler = each(|item: Item| {
        let fails = number(&item.key) % 2 == 1;
        async move {
            if fails {
                return Err(ItemFailure::permanent(ParkReason::Other, "odd"));
            }
            Ok(line(&item))
        }
    });
    let worker = worker_with(coordinator.clone(), handler, &sink);
    let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
    assert!(matches!(error, WorkerError::TooManyParked { .. }), "{error:?}");
    assert!(error.to_string().starts_with("too many items are parked: row 8 failed"), "{error}");
    assert_eq!(results(&coordinator, &sink).await, ["000000", "000002", "000004", "000006"]);
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Parked { shards: 3 });
    let parked = ["000001", "000003", "000005"];
    let kept: Vec<String> =
        all(20).into_iter().filter(|key| !parked.contains(&key.as_str())).collect();
    assert_eq!(results(&coordinator, &sink).await, kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_shard_limit_each_split_request_is_declined() {
    let limits = ShardLimits { per_tenant: 1, ..ShardLimits::default() };
    let coordinator = start_with_limit(200, 1, Completed, 10_000, limits).await;
    let (_folder, sink) = sink();
    let declined = Arc::new(Semaphore::new(0));
    let requests = Arc::clone(&declined);
    let handler = each(move |item: Item| {
        let requests = Arc::clone(&requests);
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            // Until two requests were declined: the limit may have been raised in between.
            if number(&item.key) == 100 {
                let _declined_twice = requests.acquire_many(2).await;
            }
            Ok(line(&item))
        }
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
        .observer(Arc::new(CountsDeclined(declined)));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(200));
}

/// Counts declined split requests.
struct CountsDeclined(Arc<Semaphore>);

impl Observer for CountsDeclined {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Indivisible { .. } = event {
            self.0.add_permits(1);
        }
    }
}

/// A handler that fails a whole batch because of one item in it.
struct AllOrNothing {
    bad: usize,
    /// Whether only the bad item fails.
    is_own: bool,
    tries: Arc<AtomicUsize>,
    /// Stopped when the bad item is tried.
    stop: Option<StopSignal>,
}

impl Handler for AllOrNothing {
    fn batch_size(&self) -> usize {
        10
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let is_bad = |item: &Item| number(&item.key) == self.bad;
        let has_bad = batch.items.iter().any(is_bad);
        self.tries.fetch_add(usize::from(has_bad), Ordering::Relaxed);
        if let Some(stop) = self.stop.as_ref().filter(|_| has_bad) {
            stop.stop();
        }
        let each = batch.items.iter().map(|item| match has_bad {
            true if self.is_own && is_bad(item) => Err(ItemFailure::retryable("bad").own()),
            true if !self.is_own => Err(ItemFailure::retryable("failed with its batch")),
            _ => Ok(line(item)),
        });
        each.collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_failed_in_a_batch_is_tried_alone() {
    for (is_own, tried) in [(false, 2), (true, 1)] {
        let coordinator = start(100, 1, Completed).await;
        let (_folder, sink) = sink();
        let tries = Arc::new(AtomicUsize::new(0));
        let retry = RetryPolicy { retries: 0, ..RetryPolicy::default() };
        let worker = worker_with(
            coordinator.clone(),
            AllOrNothing { bad: 47, is_own, tries: Arc::clone(&tries), stop: None },
            &sink,
        )
        .options(WorkerOptions { retry, ..WorkerOptions::default() });
        let outcome = timeout(LONG, worker.run()).await.unwrap().unwrap();
        assert_eq!(outcome, RunOutcome::Parked { shards: 1 });
        let bad = String::from_utf8(key(47)).unwrap();
        let kept: Vec<String> = all(100).into_iter().filter(|key| *key != bad).collect();
        assert_eq!(results(&coordinator, &sink).await, kept);
        assert_eq!(tries.load(Ordering::Relaxed), tried);
    }
}

/// Trying them alone would delay the stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_stop_no_item_of_a_failed_batch_is_tried_alone() {
    let coordinator = start(100, 1, Completed).await;
    let (_folder, sink) = sink();
    let (tries, stop) = (Arc::new(AtomicUsize::new(0)), StopSignal::default());
    let stopping = Some(stop.clone());
    let worker = worker_with(
        coordinator.clone(),
        AllOrNothing { bad: 47, is_own: false, tries: Arc::clone(&tries), stop: stopping },
        &sink,
    )
    .stop(stop);
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Stopped);
    assert_eq!(tries.load(Ordering::Relaxed), 1);
    assert_eq!(results(&coordinator, &sink).await, all(40));
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}
