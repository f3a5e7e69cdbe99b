//! Claims, checkpoints, retries, parking and splits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use shardwright_contracts::CursorSemantics::{Completed, Dispatched};
use shardwright_contracts::{OpId, ShardKey, WorkerId};
use shardwright_coordination::{
    AsyncRunManagement, AsyncShardClaiming as _, ParkReason, RunStatus, ShardFilter,
};
use shardwright_worker::connector::Item;
use shardwright_worker::handler::Outcome;
use shardwright_worker::{
    ItemFailure, Observer, RetryPolicy, RunOutcome, StopSignal, Worker, WorkerEvent, WorkerOptions,
    each,
};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;

use crate::support::{
    Journal, LONG, Numbers, Paused, RUN, TENANT, all, env, join, key, line, number, results,
    shards, sink, start, start_with_lease, worker_with, write_keys,
};

/// No waits between retries.
fn without_waits() -> WorkerOptions {
    let retry = RetryPolicy { first_wait: Duration::ZERO, ..RetryPolicy::default() };
    WorkerOptions { retry, ..WorkerOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_item_is_processed_once() {
    let coordinator = start(1_000, 7, Completed).await;
    let (_folder, sink) = sink();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let handler = each(move |item: Item| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(line(&item)) }
    });
    let options = WorkerOptions { slots: 3, in_flight: 4, ..WorkerOptions::default() };
    let outcome =
        worker_with(coordinator.clone(), handler, &sink).options(options).run().await.unwrap();
    assert_eq!((outcome, calls.load(Ordering::Relaxed)), (RunOutcome::Done, 1_000));
    assert_eq!(results(&coordinator, &sink).await, all(1_000));
    let run = coordinator.get_run(TENANT, RUN).await.unwrap();
    assert_eq!(run.status, RunStatus::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_stops_and_resumes_leave_the_results_unchanged() {
    let coordinator = start(3_000, 1, Completed).await;
    let (_folder, sink) = sink();
    let mut stops = 0;
    loop {
        let stop = StopSignal::default();
        let done = Arc::new(AtomicUsize::new(0));
        let (count, stopping) = (Arc::clone(&done), stop.clone());
        let handler = each(move |item: Item| {
            if count.fetch_add(1, Ordering::Relaxed) == 45 {
                stopping.stop();
            }
            async move { Ok(line(&item)) }
        });
        let worker = worker_with(join(&coordinator).await, handler, &sink).stop(stop);
        match worker.run().await.unwrap() {
            RunOutcome::Stopped => stops += 1,
            RunOutcome::Done => break,
            outcome => panic!("{outcome:?}"),
        }
    }
    // More holders than a cursor can name extents.
    assert!(stops > 60, "{stops}");
    assert_eq!(results(&coordinator, &sink).await, all(3_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_does_not_wait_for_retries() {
    let coordinator = start(20, 1, Completed).await;
    let (_folder, sink) = sink();
    let hour = Duration::from_secs(3_600);
    let retry = RetryPolicy { retries: 2, first_wait: hour, longest_wait: hour };
    let stop = StopSignal::default();
    let worker = |stop: StopSignal, fails: bool| {
        let stopping = stop.clone();
        let handler = each(move |item: Item| {
            let fails = fails && number(&item.key) == 7;
            if fails {
                stopping.stop();
            }
            async move {
                if fails {
                    return Err(ItemFailure::retryable("failed"));
                }
                Ok(line(&item))
            }
        });
        worker_with(coordinator.clone(), handler, &sink)
            .options(WorkerOptions { slots: 1, in_flight: 4, retry, ..WorkerOptions::default() })
            .stop(stop)
    };
    let stopped = timeout(LONG, worker(stop, true).run()).await.unwrap();
    assert_eq!(stopped.unwrap(), RunOutcome::Stopped);
    let left = shards(&coordinator).await;
    assert_eq!(left.len(), 1, "nothing is parked");
    let reached = left[0].cursor.as_update().last_key().map(<[u8]>::to_vec);
    assert_eq!(reached, Some(key(6)), "items before it are done");
    let done = timeout(LONG, worker(StopSignal::default(), false).run()).await.unwrap();
    assert_eq!(done.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_item_is_parked_alone_and_can_be_unparked() {
    let coordinator = start(100, 1, Completed).await;
    let (_folder, sink) = sink();
    let is_fixed = Arc::new(AtomicBool::new(false));
    let worker = || {
        let is_fixed = Arc::clone(&is_fixed);
        let handler = each(move |item: Item| {
            let fails = [0, 41, 99].contains(&number(&item.key));
            let fails = fails && !is_fixed.load(Ordering::Relaxed);
            let failure = || Err(ItemFailure::retryable("failed"));
            async move { if fails { failure() } else { Ok(line(&item)) } }
        });
        let options = WorkerOptions { in_flight: 3, ..without_waits() };
        worker_with(coordinator.clone(), handler, &sink).options(options)
    };
    let journal = Journal::default();
    let outcome = worker().observer(Arc::new(journal.clone())).run().await.unwrap();
    assert_eq!(outcome, RunOutcome::Parked { shards: 3 });
    let parked: Vec<String> =
        journal.lines().into_iter().filter(|line| line.starts_with("parked")).collect();
    let expected = ["000000", "000041", "000099"].map(|key| format!("parked {key} failed"));
    assert_eq!(parked, expected);
    let without_failures: Vec<String> = all(100)
        .into_iter()
        .filter(|key| !["000000", "000041", "000099"].contains(&key.as_str()))
        .collect();
    assert_eq!(results(&coordinator, &sink).await, without_failures);
    for shard in coordinator.list_shards(TENANT, RUN, ShardFilter::parked()).await.unwrap() {
        assert_eq!(shard.park_reason, Some(ParkReason::TooManyErrors));
        let detail = String::from_utf8(shard.park_detail.unwrap().into_vec()).unwrap();
        assert!(detail.starts_with("row ") && detail.ends_with(": failed"), "{detail}");
        let key = ShardKey::new(RUN, shard.shard);
        coordinator.unpark_shard(TENANT, key, OpId::from_raw(7)).await.unwrap();
    }
    is_fixed.store(true, Ordering::Relaxed);
    assert_eq!(worker().run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retries_follow_the_policy_and_end_at_a_fatal_failure() {
    let coordinator = start(3, 1, Completed).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let handler = each(move |item: Item| -> std::future::Ready<Outcome> {
        std::future::ready(match number(&item.key) {
            0 if count.fetch_add(1, Ordering::Relaxed) < 2 => Err(ItemFailure::retryable("later")),
            1 => {
                count.fetch_add(100, Ordering::Relaxed);
                Err(ItemFailure::permanent(ParkReason::PermissionDenied, "never"))
            }
            _ => Ok(Vec::new()),
        })
    });
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(Numbers)
        .handler(handler)
        .env(env())
        .options(without_waits());
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Parked { shards: 1 });
    assert_eq!(tries.load(Ordering::Relaxed), 103);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cursor_never_moves_over_an_item_that_is_not_done() {
    for (semantics, expected) in [(Completed, None), (Dispatched, Some(b"000003".as_slice()))] {
        let coordinator = start(4, 1, semantics).await;
        let others = Arc::new(AtomicUsize::new(0));
        let all_but_one = Arc::new(Notify::new());
        let (count, notify) = (Arc::clone(&others), Arc::clone(&all_but_one));
        let handler = each(move |item: Item| {
            let is_first = number(&item.key) == 0;
            if !is_first && count.fetch_add(1, Ordering::Relaxed) == 2 {
                notify.notify_one();
            }
            async move {
                if is_first {
                    std::future::pending::<()>().await;
                }
                Ok(Vec::new())
            }
        });
        let options = WorkerOptions {
            in_flight: 4,
            commit_interval: Duration::from_millis(1),
            ..WorkerOptions::default()
        };
        let stop = StopSignal::default();
        let worker = Worker::builder(TENANT, RUN)
            .backend(coordinator.clone())
            .connector(Numbers)
            .handler(handler)
            .env(env())
            .options(options)
            .stop(stop.clone());
        let working = tokio::spawn(worker.run());
        all_but_one.notified().await;
        let reached = || async {
            let shards = shards(&coordinator).await;
            shards[0].cursor.as_update().last_key().map(<[u8]>::to_vec)
        };
        // Waits until the cursor has moved, or long enough for a wrong move.
        for _ in 0..50 {
            if expected.is_some() && reached().await.as_deref() == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(reached().await.as_deref(), expected, "{semantics:?}");
        working.abort();
    }
}

/// Closes a semaphore when a shard is split.
struct ClosesOnSplit(Arc<Semaphore>);

impl Observer for ClosesOnSplit {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if matches!(event, WorkerEvent::Split { .. }) {
            self.0.close();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_splits_its_shard_while_an_item_takes_long() {
    let hour_ms = 3_600_000;
    let coordinator = start_with_lease(100, 1, Completed, hour_ms).await;
    let (_folder, sink) = sink();
    // Closed when the shard is split. Until then, no item finishes.
    let divided = Arc::new(Semaphore::new(0));
    let is_divided = Arc::clone(&divided);
    let handler = each(move |item: Item| {
        let divided = Arc::clone(&is_divided);
        async move {
            let _closed = divided.acquire().await;
            Ok(line(&item))
        }
    });
    let worker = worker_with(coordinator.clone(), handler, &sink)
        .options(WorkerOptions { slots: 2, ..WorkerOptions::default() })
        .observer(Arc::new(ClosesOnSplit(divided)));
    let outcome = timeout(LONG, worker.run()).await.expect("the holder learns of the request");
    assert_eq!(outcome.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_worker_gets_a_part_of_a_slow_shard() {
    let coordinator = start(600, 1, Completed).await;
    let (_folder, sink) = sink();
    let journal = Journal::default();
    let handler = each(|item: Item| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(line(&item))
    });
    let options = WorkerOptions { slots: 4, ..WorkerOptions::default() };
    let outcome = worker_with(coordinator.clone(), handler, &sink)
        .options(options)
        .observer(Arc::new(journal.clone()))
        .run()
        .await
        .unwrap();
    assert_eq!(outcome, RunOutcome::Done);
    assert!(journal.count("split") >= 3, "{:?}", journal.lines());
    assert_eq!(journal.count("done"), 600);
    assert_eq!(results(&coordinator, &sink).await, all(600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_replaced_holder_do_not_exist() {
    let coordinator = start_with_lease(50, 1, Completed, 300).await;
    let (_folder, sink) = sink();
    // The first worker hangs in an item, like a paused process.
    let stuck = Arc::new(Notify::new());
    let notify = Arc::clone(&stuck);
    let handler = each(move |item: Item| {
        let sticks = number(&item.key) == 20;
        let notify = Arc::clone(&notify);
        async move {
            if sticks {
                notify.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(line(&item))
        }
    });
    let first = join(&coordinator).await;
    let worker = Worker::builder(TENANT, RUN)
        .backend(first.clone())
        .connector(Numbers)
        .handler(handler)
        .sink(sink.clone())
        // It does not renew, so the successor can claim.
        .env(Paused(env()));
    let working = tokio::spawn(worker.run());
    stuck.notified().await;
    working.abort();
    // Aborting the caller leaves the task of the slot. Closing the session ends its leases.
    first.close().await.unwrap();
    let handler = write_keys();
    let outcome = worker_with(coordinator.clone(), handler, &sink).run().await.unwrap();
    assert_eq!(outcome, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(50));
}

/// Counts commits.
#[derive(Default)]
struct Commits(AtomicUsize);

impl Observer for Commits {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Committed { .. } = event {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_loss_does_not_slow_the_next_holder() {
    for semantics in [Completed, Dispatched] {
        let coordinator = start_with_lease(2_000, 1, semantics, 1_000).await;
        // A worker claims the shard and is lost.
        let lost = WorkerId::from_raw(7);
        coordinator.claim_next_available(TENANT, RUN, lost).await.unwrap();
        let commits = Arc::new(Commits::default());
        let (_folder, sink) = sink();
        let outcome = worker_with(join(&coordinator).await, write_keys(), &sink)
            .options(WorkerOptions { in_flight: 64, ..WorkerOptions::default() })
            .observer(Arc::clone(&commits) as Arc<dyn Observer>)
            .run()
            .await
            .unwrap();
        assert_eq!(outcome, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(2_000));
        let commits = commits.0.load(Ordering::Relaxed);
        assert!((1..1_000).contains(&commits), "{commits}");
    }
}

/// Records the number of committed items.
#[derive(Default)]
struct Committed(AtomicUsize);

impl Observer for Committed {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Committed { items, .. } = event {
            self.0.store(usize::try_from(items).unwrap(), Ordering::Relaxed);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uncommitted_items_stay_within_the_limit() {
    let coordinator = start(5_000, 1, Completed).await;
    let (committed, most) = (Arc::new(Committed::default()), Arc::new(AtomicUsize::new(0)));
    let (started, at, high) = (AtomicUsize::new(0), Arc::clone(&committed), Arc::clone(&most));
    let handler = each(move |_| {
        let started = started.fetch_add(1, Ordering::Relaxed) + 1;
        high.fetch_max(started - at.0.load(Ordering::Relaxed), Ordering::Relaxed);
        std::future::ready(Ok(Vec::new()))
    });
    let options = WorkerOptions {
        in_flight: 64,
        commit_items: 500,
        commit_interval: Duration::from_secs(600),
        ..WorkerOptions::default()
    };
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator)
        .connector(Numbers)
        .handler(handler)
        .env(env())
        .options(options)
        .observer(Arc::clone(&committed) as Arc<dyn Observer>);
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    let most = most.load(Ordering::Relaxed);
    assert!((250..=500).contains(&most), "{most}");
}
