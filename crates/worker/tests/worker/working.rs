//! What a worker does with the shards of a run.

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

/// Never waits between tries.
fn impatient() -> WorkerOptions {
    let retry = RetryPolicy { first_wait: Duration::ZERO, ..RetryPolicy::default() };
    WorkerOptions { retry, ..WorkerOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_item_is_worked_on_once_and_the_run_is_done() {
    let coordinator = start(1_000, 7, Completed).await;
    let (_folder, sink) = sink();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let handler = each(move |item: Item| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(line(&item)) }
    });
    let options = WorkerOptions { slots: 3, in_flight: 4, ..WorkerOptions::default() };
    let ending =
        worker_with(coordinator.clone(), handler, &sink).options(options).run().await.unwrap();
    assert_eq!((ending, calls.load(Ordering::Relaxed)), (RunOutcome::Done, 1_000));
    assert_eq!(results(&coordinator, &sink).await, all(1_000));
    let run = coordinator.get_run(TENANT, RUN).await.unwrap();
    assert_eq!(run.status, RunStatus::Done);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_and_going_on_sixty_times_changes_nothing_about_the_results() {
    let coordinator = start(3_000, 1, Completed).await;
    let (_folder, sink) = sink();
    let mut stops = 0;
    loop {
        let stop = StopSignal::default();
        let done = Arc::new(AtomicUsize::new(0));
        let (count, told) = (Arc::clone(&done), stop.clone());
        let handler = each(move |item: Item| {
            if count.fetch_add(1, Ordering::Relaxed) == 45 {
                told.stop();
            }
            async move { Ok(line(&item)) }
        });
        let worker = worker_with(join(&coordinator).await, handler, &sink).stop(stop);
        match worker.run().await.unwrap() {
            RunOutcome::Stopped => stops += 1,
            RunOutcome::Done => break,
            ending => panic!("{ending:?}"),
        }
    }
    // More holders than a cursor has room for extents.
    assert!(stops > 60, "{stops}");
    assert_eq!(results(&coordinator, &sink).await, all(3_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_stops_waits_for_no_other_try_and_what_failed_is_tried_again_later() {
    let coordinator = start(20, 1, Completed).await;
    let (_folder, sink) = sink();
    let hour = Duration::from_secs(3_600);
    let retry = RetryPolicy { retries: 2, first_wait: hour, longest_wait: hour };
    let stop = StopSignal::default();
    let worker = |stop: StopSignal, fails: bool| {
        let told = stop.clone();
        let handler = each(move |item: Item| {
            let fails = fails && number(&item.key) == 7;
            if fails {
                told.stop();
            }
            async move {
                if fails {
                    return Err(ItemFailure::retryable("no luck"));
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
    assert_eq!(left.len(), 1, "nothing is set aside");
    let reached = left[0].cursor.as_update().last_key().map(<[u8]>::to_vec);
    assert_eq!(reached, Some(key(6)), "what comes before it is done");
    let done = timeout(LONG, worker(StopSignal::default(), false).run()).await.unwrap();
    assert_eq!(done.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_item_is_parked_alone_and_can_be_tried_again() {
    let coordinator = start(100, 1, Completed).await;
    let (_folder, sink) = sink();
    let is_mended = Arc::new(AtomicBool::new(false));
    let worker = || {
        let is_mended = Arc::clone(&is_mended);
        let handler = each(move |item: Item| {
            let fails = [0, 41, 99].contains(&number(&item.key));
            let fails = fails && !is_mended.load(Ordering::Relaxed);
            let failure = || Err(ItemFailure::retryable("no luck"));
            async move { if fails { failure() } else { Ok(line(&item)) } }
        });
        let options = WorkerOptions { in_flight: 3, ..impatient() };
        worker_with(coordinator.clone(), handler, &sink).options(options)
    };
    let journal = Journal::default();
    let ending = worker().observer(Arc::new(journal.clone())).run().await.unwrap();
    assert_eq!(ending, RunOutcome::Parked { shards: 3 });
    let parked: Vec<String> =
        journal.lines().into_iter().filter(|line| line.starts_with("parked")).collect();
    let expected = ["000000", "000041", "000099"].map(|key| format!("parked {key} no luck"));
    assert_eq!(parked, expected);
    let without_failures: Vec<String> = all(100)
        .into_iter()
        .filter(|key| !["000000", "000041", "000099"].contains(&key.as_str()))
        .collect();
    assert_eq!(results(&coordinator, &sink).await, without_failures);
    for shard in coordinator.list_shards(TENANT, RUN, ShardFilter::parked()).await.unwrap() {
        assert_eq!(shard.park_reason, Some(ParkReason::TooManyErrors));
        let detail = String::from_utf8(shard.park_detail.unwrap().into_vec()).unwrap();
        assert!(detail.starts_with("row ") && detail.ends_with(": no luck"), "{detail}");
        let key = ShardKey::new(RUN, shard.shard);
        coordinator.unpark_shard(TENANT, key, OpId::from_raw(7)).await.unwrap();
    }
    is_mended.store(true, Ordering::Relaxed);
    assert_eq!(worker().run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_is_tried_as_often_as_was_said_and_no_longer_than_it_helps() {
    let coordinator = start(3, 1, Completed).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let handler = each(move |item: Item| -> std::future::Ready<Outcome> {
        std::future::ready(match number(&item.key) {
            0 if count.fetch_add(1, Ordering::Relaxed) < 2 => Err(ItemFailure::retryable("later")),
            1 => {
                count.fetch_add(100, Ordering::Relaxed);
                Err(ItemFailure::fatal(ParkReason::PermissionDenied, "never"))
            }
            _ => Ok(Vec::new()),
        })
    });
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(Numbers)
        .handler(handler)
        .env(env())
        .options(impatient());
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
        // A cursor that is to move does; one that is not has every chance to.
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

/// Lets items end when a shard is divided.
struct UntilDivided(Arc<Semaphore>);

impl Observer for UntilDivided {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if matches!(event, WorkerEvent::Split { .. }) {
            self.0.close();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_gives_a_part_away_while_its_item_takes_long() {
    let hour_ms = 3_600_000;
    let coordinator = start_with_lease(100, 1, Completed, hour_ms).await;
    let (_folder, sink) = sink();
    // Closed when the shard is divided: until then, no item ends.
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
        .observer(Arc::new(UntilDivided(divided)));
    let ending = timeout(LONG, worker.run()).await.expect("the holder hears of the request");
    assert_eq!(ending.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_with_nothing_to_do_gets_a_part_of_what_is_slow() {
    let coordinator = start(600, 1, Completed).await;
    let (_folder, sink) = sink();
    let journal = Journal::default();
    let handler = each(|item: Item| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(line(&item))
    });
    let options = WorkerOptions { slots: 4, ..WorkerOptions::default() };
    let ending = worker_with(coordinator.clone(), handler, &sink)
        .options(options)
        .observer(Arc::new(journal.clone()))
        .run()
        .await
        .unwrap();
    assert_eq!(ending, RunOutcome::Done);
    assert!(journal.count("split") >= 3, "{:?}", journal.lines());
    assert_eq!(journal.count("done"), 600);
    assert_eq!(results(&coordinator, &sink).await, all(600));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_of_a_holder_that_was_overtaken_do_not_exist() {
    let coordinator = start_with_lease(50, 1, Completed, 300).await;
    let (_folder, sink) = sink();
    // The first worker stops answering in the middle of an item, like a paused process.
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
        // It renews nothing, so it cannot get its lease back before the successor claims.
        .env(Paused(env()));
    let working = tokio::spawn(worker.run());
    stuck.notified().await;
    working.abort();
    // Aborting the caller leaves the slot's task; what it holds goes with its session.
    first.close().await.unwrap();
    let handler = write_keys();
    let ending = worker_with(coordinator.clone(), handler, &sink).run().await.unwrap();
    assert_eq!(ending, RunOutcome::Done);
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
async fn a_holder_that_was_lost_by_chance_does_not_slow_its_successor_down() {
    for semantics in [Completed, Dispatched] {
        let coordinator = start_with_lease(2_000, 1, semantics, 1_000).await;
        // Somebody takes the shard and is never heard of again.
        let lost = WorkerId::from_raw(7);
        coordinator.claim_next_available(TENANT, RUN, lost).await.unwrap();
        let commits = Arc::new(Commits::default());
        let (_folder, sink) = sink();
        let ending = worker_with(join(&coordinator).await, write_keys(), &sink)
            .options(WorkerOptions { in_flight: 64, ..WorkerOptions::default() })
            .observer(Arc::clone(&commits) as Arc<dyn Observer>)
            .run()
            .await
            .unwrap();
        assert_eq!(ending, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(2_000));
        let commits = commits.0.load(Ordering::Relaxed);
        assert!((1..1_000).contains(&commits), "{commits}");
    }
}

/// Remembers how far the cursor is.
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
async fn no_more_is_begun_and_not_committed_than_was_said() {
    let coordinator = start(5_000, 1, Completed).await;
    let (committed, most) = (Arc::new(Committed::default()), Arc::new(AtomicUsize::new(0)));
    let (begun, at, high) = (AtomicUsize::new(0), Arc::clone(&committed), Arc::clone(&most));
    let handler = each(move |_| {
        let begun = begun.fetch_add(1, Ordering::Relaxed) + 1;
        high.fetch_max(begun - at.0.load(Ordering::Relaxed), Ordering::Relaxed);
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
