//! Items that wait for a retry: what runs meanwhile, what is committed, and what a loss leaves.
//!
//! The clock is that of a paused runtime, so times are exact.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardwright_contracts::CursorSemantics::{Completed, Dispatched};
use shardwright_contracts::{
    CursorUpdate, Env as _, InitialShardInput, OpId, ShardId, ShardKey, ShardSpecRef,
};
use shardwright_coordination::{
    AsyncRunManagement as _, RunConfig, ShardFilter, ShardLimits, ShardStatus,
};
use shardwright_engine::keyspace::Keyspace;
use shardwright_frontier::{MetadataBuf, ShardHint, ShardMetadata, decode_connector_extra};
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_worker::connector::Item;
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::handler::Outcome;
use shardwright_worker::{
    CompleteWorkerBuilder, Handler, ItemFailure, RetryPolicy, RunOutcome, StopSignal, Worker,
    WorkerOptions,
};

use crate::support::{
    Coordinator, Journal, Numbers, RUN, TENANT, Tried, Virtual, all, env, join, key, line, memory,
    number, results, shards, sink, start, start_with_limit, worker_with,
};

const HOUR: Duration = Duration::from_secs(3_600);

fn waiting(first_wait: Duration) -> WorkerOptions {
    let retry = RetryPolicy { retries: 2, first_wait, longest_wait: first_wait * 4 };
    WorkerOptions { retry, ..WorkerOptions::default() }
}

fn failed() -> Outcome {
    Err(ItemFailure::retryable("failed"))
}

/// Starts of tries: item, number of the try, time.
#[derive(Clone)]
struct Starts {
    env: Virtual,
    all: Arc<Mutex<Vec<(usize, u32, Duration)>>>,
}

impl Starts {
    fn new() -> Self {
        Self { env: Virtual::new(), all: Arc::default() }
    }

    fn note(&self, item: &Item, attempt: u32) -> usize {
        let number = number(&item.key);
        self.all.lock().unwrap().push((number, attempt, self.env.monotonic()));
        number
    }

    /// The tries of an item, with the number of tries that started before each.
    fn of(&self, item: usize) -> Vec<(u32, Duration, usize)> {
        let all = self.all.lock().unwrap();
        let tries = all.iter().enumerate().filter(|(_, (number, ..))| *number == item);
        tries.map(|(before, (_, attempt, at))| (*attempt, *at, before)).collect()
    }
}

/// A handler that takes a millisecond, and fails the first `failures` tries of some items.
fn failing(starts: &Starts, items: &[usize], failures: u32) -> impl Handler {
    let (starts, items) = (starts.clone(), items.iter().copied().collect::<BTreeSet<_>>());
    Tried(move |item: Item, attempt| {
        let fails = items.contains(&starts.note(&item, attempt)) && attempt <= failures;
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if fails { failed() } else { Ok(line(&item)) }
        }
    })
}

fn worker(
    coordinator: &Coordinator,
    handler: impl Handler,
    sink: &shardwright_connectors::FolderSink,
    starts: &Starts,
) -> CompleteWorkerBuilder {
    worker_with(coordinator.clone(), handler, sink).env(starts.env.clone())
}

#[tokio::test(start_paused = true)]
async fn the_slot_works_on_others_while_an_item_waits() {
    for semantics in [Completed, Dispatched] {
        let coordinator = start(40, 1, semantics).await;
        let ((_folder, sink), starts) = (sink(), Starts::new());
        let worker = worker(&coordinator, failing(&starts, &[3], 2), &sink, &starts)
            .options(waiting(Duration::from_millis(400)));
        assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(40));
        let tries = starts.of(3);
        let numbers: Vec<u32> = tries.iter().map(|(number, ..)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let waits = [tries[1].1 - tries[0].1, tries[2].1 - tries[1].1];
        let ms = |from, to| Duration::from_millis(from)..Duration::from_millis(to);
        assert!(ms(200, 410).contains(&waits[0]) && ms(400, 810).contains(&waits[1]), "{waits:?}");
        assert_eq!(tries[1].2, 40, "all others were started before the retry");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_64_items_run_ahead_of_one_that_waits_in_place() {
    // No split is possible.
    let limits = ShardLimits { per_tenant: 1, ..ShardLimits::default() };
    let coordinator = start_with_limit(200, 1, Completed, 3_600_000, limits).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let worker = worker(&coordinator, failing(&starts, &[2], 1), &sink, &starts)
        .options(waiting(Duration::from_secs(10)));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(200));
    assert_eq!(starts.of(2)[1].2, 2 + 1 + 64);
}

#[tokio::test(start_paused = true)]
async fn large_results_limit_how_far_items_run_ahead() {
    let limits = ShardLimits { per_tenant: 1, ..ShardLimits::default() };
    let coordinator = start_with_limit(50, 1, Completed, 3_600_000, limits).await;
    let starts = Starts::new();
    let noted = starts.clone();
    let handler = Tried(move |item: Item, attempt| {
        let fails = noted.note(&item, attempt) == 0 && attempt == 1;
        async move { if fails { failed() } else { Ok(vec![b'\n'; 1 << 20]) } }
    });
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator)
        .connector(Numbers)
        .handler(handler)
        .env(starts.env.clone())
        .options(waiting(Duration::from_secs(10)));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(starts.of(0)[1].2, 1 + 8);
}

/// The number of items that committed cursors have passed.
async fn committed(coordinator: &Coordinator) -> u64 {
    let done = shards(coordinator)
        .await
        .into_iter()
        .map(|shard| TokenEnvelope::decode(shard.cursor.as_update().token()).unwrap().items);
    done.sum()
}

#[tokio::test(start_paused = true)]
async fn a_waiting_item_is_split_off_and_all_else_is_committed() {
    let coordinator = start(200, 1, Completed).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let (noted, counted) = (starts.clone(), coordinator.clone());
    let handler = Tried(move |item: Item, attempt| {
        let (number, counted) = (noted.note(&item, attempt), counted.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            match (number, attempt) {
                (5, 1) => failed(),
                (5, _) if committed(&counted).await != 199 => failed(),
                _ => Ok(line(&item)),
            }
        }
    });
    let journal = Journal::default();
    let worker = worker(&coordinator, handler, &sink, &starts)
        .options(waiting(HOUR))
        .observer(Arc::new(journal.clone()));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(starts.of(5).len(), 2, "everything else was committed before the retry");
    let events = ["set aside 000005 1", "split 000005\0"].map(|event| journal.count(event));
    assert_eq!(events, [1, 1], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(200));
}

#[tokio::test(start_paused = true)]
async fn a_slot_leaves_a_shard_that_only_waits() {
    let coordinator = start(20, 2, Completed).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let worker = worker(&coordinator, failing(&starts, &[7, 9, 17], 1), &sink, &starts)
        .options(waiting(Duration::from_millis(800)));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(20));
    let retried = [7, 9, 17].map(|item| starts.of(item)[1].2);
    assert!(retried.iter().all(|before| *before >= 20), "{retried:?}");
    assert_eq!(shards(&coordinator).await.len(), 2, "no split is needed");
}

/// How long a run takes in which every item fails, and the most tries at a time.
async fn time_of_failures(items: usize, slots: usize, first_wait: Duration) -> (Duration, usize) {
    let coordinator = start(items, 3, Completed).await;
    let env = Virtual::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let high = Arc::clone(&most);
    let handler = Tried(move |_, _| {
        let (running, high) = (Arc::clone(&running), Arc::clone(&high));
        async move {
            high.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            failed()
        }
    });
    let retry = RetryPolicy { first_wait, ..RetryPolicy::default() };
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(Numbers)
        .handler(handler)
        .env(env.clone())
        .options(WorkerOptions { slots, retry, ..WorkerOptions::default() });
    let outcome = worker.run().await.unwrap();
    assert_eq!(outcome, RunOutcome::Parked { shards: u32::try_from(items).unwrap() });
    (env.monotonic(), most.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn failing_items_wait_together() {
    let waits = Duration::from_millis(200 + 400);
    let (at_once, _) = time_of_failures(300, 2, Duration::ZERO).await;
    let (with_waits, most) = time_of_failures(300, 2, RetryPolicy::default().first_wait).await;
    assert!(with_waits <= at_once.mul_f64(1.2) + waits, "{with_waits:?} against {at_once:?}");
    assert_eq!(most, 2, "tries at a time");
}

#[tokio::test(start_paused = true)]
async fn tries_survive_the_loss_of_their_holder() {
    let coordinator = start(100, 1, Completed).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let first = join(&coordinator).await;
    let journal = Journal::default();
    let lost = worker(&first, failing(&starts, &[5], 9), &sink, &starts)
        .options(waiting(HOUR))
        .observer(Arc::new(journal.clone()));
    let working = tokio::spawn(lost.run());
    while journal.count("set aside 000005") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    working.abort();
    // Aborting the caller leaves the tasks of the worker. Closing the session ends its leases.
    first.close().await.unwrap();
    let next = Starts::new();
    let worker = worker(&coordinator, failing(&next, &[5], 9), &sink, &next)
        .options(waiting(Duration::from_millis(100)));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Parked { shards: 1 });
    let tries: Vec<u32> = next.of(5).iter().map(|(attempt, ..)| *attempt).collect();
    assert_eq!(tries, [2, 3]);
    // The stored wait of an hour is longer than the policy's longest.
    assert!(next.of(5)[0].1 <= HOUR / 60, "{:?}", next.of(5));
    let kept: Vec<String> = all(100).into_iter().filter(|key| key != "000005").collect();
    assert_eq!(results(&coordinator, &sink).await, kept);
}

#[tokio::test(start_paused = true)]
async fn an_unparked_item_gets_all_its_tries_again() {
    let coordinator = start(100, 1, Completed).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let options = waiting(Duration::from_secs(10));
    let worker = |starts: &Starts, failures| {
        worker(&coordinator, failing(starts, &[5], failures), &sink, starts).options(options)
    };
    assert_eq!(worker(&starts, 3).run().await.unwrap(), RunOutcome::Parked { shards: 1 });
    let parked = coordinator.list_shards(TENANT, RUN, ShardFilter::parked()).await.unwrap();
    let shard = ShardKey::new(RUN, parked[0].shard);
    coordinator.unpark_shard(TENANT, shard, OpId::from_raw(7)).await.unwrap();
    let again = Starts::new();
    assert_eq!(worker(&again, 2).run().await.unwrap(), RunOutcome::Done);
    let tries: Vec<u32> = again.of(5).iter().map(|(attempt, ..)| *attempt).collect();
    assert_eq!(tries, [1, 2, 3]);
    assert_eq!(results(&coordinator, &sink).await, all(100));
}

/// A run of one shard with these connector's bytes, over the first item or the first two.
async fn start_with_extra(end: &[u8], extra: &[u8]) -> Coordinator {
    let config =
        EngineConfig { skew_allowance_ms: 0, clock_mark_interval_ms: 0, ..EngineConfig::default() };
    let coordinator =
        StoredCoordinator::open(memory(), env(), Keyspace::default(), config).await.unwrap();
    let mut buffer = MetadataBuf::new();
    let metadata = ShardMetadata::new(ShardHint::Range, extra).encode_into(&mut buffer).unwrap();
    let start = key(0);
    let shard = InitialShardInput {
        shard: ShardId::from_raw(0),
        spec: ShardSpecRef::new(&start, end, metadata),
        cursor: CursorUpdate::initial(),
    };
    let config = RunConfig::try_new(Completed, 10_000, None).unwrap();
    let op = OpId::from_raw(1);
    coordinator.create_run_with_shards(TENANT, RUN, config, &[shard], op).await.unwrap();
    coordinator
}

#[tokio::test(start_paused = true)]
async fn a_damaged_retry_state_stalls_no_run() {
    let end = [&key(0)[..], &[0]].concat();
    // Tries, tries that do not count, not before, unparks: a fence of 2 after one acquire.
    let state = [&b"swretry\x01"[..], &[0xff; 16], &1_u64.to_be_bytes()].concat();
    let coordinator = start_with_extra(&end, &state).await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let worker = worker(&coordinator, failing(&starts, &[], 0), &sink, &starts)
        .options(waiting(Duration::from_secs(1)));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(1));
    let tries = starts.of(0);
    assert_eq!((tries.len(), tries[0].0), (1, 4), "one try is left");
    assert!(tries[0].1 <= Duration::from_secs(4), "{tries:?}");
}

#[tokio::test(start_paused = true)]
async fn connectors_bytes_survive_a_split_off() {
    let coordinator = start_with_extra(&key(3), b"user").await;
    let ((_folder, sink), starts) = (sink(), Starts::new());
    let worker =
        worker(&coordinator, failing(&starts, &[1], 1), &sink, &starts).options(waiting(HOUR));
    assert_eq!(worker.run().await.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(3));
    let shards = shards(&coordinator).await;
    let extras: Vec<&[u8]> =
        shards.iter().map(|shard| decode_connector_extra(&shard.spec).unwrap()).collect();
    assert!(extras[0].starts_with(b"userswretry"), "{extras:?}");
    assert_eq!(extras[1..], [b"user"]);
}

/// Stops a worker while an item waits, and returns its outcome and the time that it took.
async fn stop_while_waiting(
    coordinator: &Coordinator,
    sink: &shardwright_connectors::FolderSink,
) -> Duration {
    let (starts, stop) = (Starts::new(), StopSignal::default());
    let worker = worker(coordinator, failing(&starts, &[5, 19], 1), sink, &starts)
        .options(waiting(HOUR))
        .stop(stop.clone());
    let working = tokio::spawn(worker.run());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let before = starts.env.monotonic();
    stop.stop();
    assert_eq!(working.await.unwrap().unwrap(), RunOutcome::Stopped);
    starts.env.monotonic() - before
}

#[tokio::test(start_paused = true)]
async fn a_stop_releases_shards_that_wait() {
    let coordinator = start(20, 1, Completed).await;
    let (_folder, sink) = sink();
    assert!(stop_while_waiting(&coordinator, &sink).await < Duration::from_secs(1));
    let left = shards(&coordinator).await;
    assert!(left.iter().all(|shard| shard.head.lease.is_none()));
    assert!(left.iter().all(|shard| shard.head.status != ShardStatus::Parked));
    let without = |item: usize| all(20).into_iter().filter(move |key| *key != all(20)[item]);
    let kept: Vec<String> = without(5).filter(|key| key != "000019").collect();
    assert_eq!(results(&coordinator, &sink).await, kept);
}

#[tokio::test(start_paused = true)]
async fn at_dispatch_a_stop_waits_for_retries() {
    let coordinator = start(20, 1, Dispatched).await;
    let (_folder, sink) = sink();
    assert!(stop_while_waiting(&coordinator, &sink).await > HOUR / 3);
    assert_eq!(results(&coordinator, &sink).await, all(20));
}
