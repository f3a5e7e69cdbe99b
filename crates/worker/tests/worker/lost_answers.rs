//! Lost replies lead to replays, late writes are fenced, and both are reported.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use shardwright_connectors::FolderSink;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{BoxFuture, Env, LogicalTime};
use shardwright_coordination::{ParkReason, ShardLimits};
use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::memory::{After, Before, HookedCall, Hooks, MemoryStore};
use shardwright_store::{Fault, FaultKind, Write};
use shardwright_worker::connector::Item;
use shardwright_worker::{
    Handler, ItemFailure, Observer, RunOutcome, StopSignal, Worker, WorkerEvent, WorkerOptions,
    each,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{
    Coordinator, Journal, LONG, Numbers, Paused, RUN, TENANT, all, ends_ownership, env, finish,
    join, line, memory, number, results, shards, sink, start_on, start_with_lease, worker_with,
    write_keys,
};

/// Loses the reply to the first matching commit, and fails all later calls until it is reconnected.
struct LosesAnswer {
    matches: fn(&Write) -> bool,
    has_lost: AtomicBool,
    is_cut_off: AtomicBool,
}

/// Whether a write puts a value that contains `wanted`.
fn puts(write: &Write, wanted: &[u8]) -> bool {
    match write {
        Write::Put { value, .. } => value.windows(wanted.len()).any(|part| part == wanted),
        Write::Delete { .. } => false,
    }
}

impl LosesAnswer {
    fn of(matches: fn(&Write) -> bool) -> Arc<Self> {
        let (has_lost, is_cut_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { matches, has_lost, is_cut_off })
    }

    fn fault() -> Fault {
        Fault::new(FaultKind::Unreachable, "the connection is cut off")
    }

    fn is_match(&self, call: HookedCall<'_>) -> bool {
        let HookedCall::Commit(commit) = call else { return false };
        commit.writes().iter().any(self.matches)
    }
}

impl Hooks for LosesAnswer {
    async fn before(&self, call: HookedCall<'_>) -> Before {
        match call {
            HookedCall::KeepAlive(_) | HookedCall::CloseSession(_) => Before::Go,
            _ if self.is_cut_off.load(Ordering::SeqCst) => Before::Refuse(Self::fault()),
            _ => Before::Go,
        }
    }

    async fn after(&self, call: HookedCall<'_>) -> After {
        if self.is_match(call) && !self.has_lost.swap(true, Ordering::SeqCst) {
            self.is_cut_off.store(true, Ordering::SeqCst);
            return After::Lose(Self::fault());
        }
        After::Answer
    }
}

/// Reconnects when the worker has reported a retry.
struct Reconnects {
    hooks: Arc<LosesAnswer>,
    journal: Journal,
}

impl Observer for Reconnects {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Retrying { .. } = event {
            self.hooks.is_cut_off.store(false, Ordering::SeqCst);
        }
        self.journal.event(slot, event);
    }
}

/// A run over fifty numbers, and its store.
async fn start_fifty() -> (MemoryStore, Coordinator) {
    let store = memory();
    let limits = ShardLimits::default();
    let coordinator = start_on(&store, 50, 1, Completed, 10_000, limits).await;
    (store, coordinator)
}

/// Runs a worker on fifty numbers that loses one reply.
async fn work_with_lost_answer(
    store: &MemoryStore,
    sink: &FolderSink,
    matches: fn(&Write) -> bool,
    handler: impl Handler,
    stop: StopSignal,
) -> RunOutcome {
    let hooks = LosesAnswer::of(matches);
    let store = store.client(Arc::clone(&hooks));
    let config =
        EngineConfig { skew_allowance_ms: 0, clock_mark_interval_ms: 0, ..EngineConfig::default() };
    let backend = StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap();
    let journal = Journal::default();
    let reconnects = Reconnects { hooks: Arc::clone(&hooks), journal: journal.clone() };
    let worker = worker_with(backend, handler, sink)
        .options(WorkerOptions { commit_items: 1, ..WorkerOptions::default() })
        .stop(stop)
        .observer(Arc::new(reconnects));
    let outcome = timeout(LONG, worker.run()).await.unwrap().unwrap();
    assert!(hooks.has_lost.load(Ordering::SeqCst), "{:?}", journal.lines());
    let events = ["replayed", "refused", "lost"].map(|kind| journal.count(kind));
    assert_eq!(events, [1, 0, 0], "{:?}", journal.lines());
    outcome
}

/// Once for a checkpoint, and once for a completion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_write_with_a_lost_reply_takes_effect_once() {
    let cases: [fn(&Write) -> bool; 2] =
        [|write| puts(write, b"000019"), |write| puts(write, b"000049")];
    for matches in cases {
        let (store, coordinator) = start_fifty().await;
        let (_folder, sink) = sink();
        let handler = write_keys();
        let stop = StopSignal::default();
        let outcome = work_with_lost_answer(&store, &sink, matches, handler, stop).await;
        assert_eq!(outcome, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(50));
    }
}

/// The items after it become a new shard, then the item is parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parking_an_item_with_a_lost_reply_takes_effect_once() {
    let cases: [fn(&Write) -> bool; 2] =
        [|write| puts(write, b"000007"), |write| puts(write, b"failed")];
    for matches in cases {
        let (store, coordinator) = start_fifty().await;
        let (_folder, sink) = sink();
        let handler = each(|item: Item| async move {
            if number(&item.key) == 7 {
                return Err(ItemFailure::permanent(ParkReason::Other, "failed"));
            }
            Ok(line(&item))
        });
        let stop = StopSignal::default();
        let outcome = work_with_lost_answer(&store, &sink, matches, handler, stop).await;
        assert_eq!(outcome, RunOutcome::Parked { shards: 1 });
        let kept: Vec<String> = all(50).into_iter().filter(|key| key != "000007").collect();
        assert_eq!(results(&coordinator, &sink).await, kept);
        assert_eq!(shards(&coordinator).await.len(), 2, "it was split once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_a_lost_reply_takes_effect_once() {
    let (store, coordinator) = start_fifty().await;
    let (_folder, sink) = sink();
    let stop = StopSignal::default();
    let stopping = stop.clone();
    let handler = each(move |item: Item| {
        if number(&item.key) == 7 {
            stopping.stop();
        }
        async move { Ok(line(&item)) }
    });
    let outcome = work_with_lost_answer(&store, &sink, ends_ownership, handler, stop).await;
    assert_eq!(outcome, RunOutcome::Stopped);
    assert_eq!(results(&coordinator, &sink).await, all(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_write_of_a_paused_worker_is_fenced() {
    let coordinator = start_with_lease(50, 1, Completed, 300).await;
    let (_folder, sink) = sink();
    let (stuck, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_stuck, may_go_on) = (Arc::clone(&stuck), Arc::clone(&go_on));
    let handler = each(move |item: Item| {
        let (is_stuck, may_go_on) = (Arc::clone(&is_stuck), Arc::clone(&may_go_on));
        async move {
            if number(&item.key) == 20 {
                is_stuck.notify_one();
                may_go_on.notified().await;
            }
            Ok(line(&item))
        }
    });
    let journal = Journal::default();
    let worker = worker_with(join(&coordinator).await, handler, &sink)
        .env(Paused(env()))
        .options(WorkerOptions { commit_items: 1, ..WorkerOptions::default() })
        .observer(Arc::new(journal.clone()));
    let working = tokio::spawn(worker.run());
    timeout(LONG, stuck.notified()).await.unwrap();
    // Its lease expires without renewals, and another worker does the rest.
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    go_on.notify_one();
    assert_eq!(timeout(LONG, working).await.unwrap().unwrap().unwrap(), RunOutcome::Done);
    let events = ["refused", "lost", "replayed"].map(|kind| journal.count(kind));
    assert_eq!(events, [1, 1, 0], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(50));
}

const LEASE: Duration = Duration::from_mins(10);

/// A machine that sleeps for the length of a lease after each read of its clock.
struct Asleep {
    env: TokioEnv,
    reads: AtomicU32,
}

impl Env for Asleep {
    fn wall_clock(&self) -> LogicalTime {
        self.env.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        LEASE * self.reads.fetch_add(1, Ordering::Relaxed)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.env.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.env.spawn(task);
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}

/// Stops a worker after it has lost a number of shards.
struct StopsAfter(usize, Journal, StopSignal);

impl Observer for StopsAfter {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        self.1.event(slot, event);
        if self.1.count("lost") >= self.0 {
            self.2.stop();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_granted_too_late_is_not_used() {
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let coordinator = start_with_lease(30, 3, Completed, lease_ms).await;
    let (journal, stop) = (Journal::default(), StopSignal::default());
    let calls = Arc::new(AtomicU32::new(0));
    let called = Arc::clone(&calls);
    let worker = Worker::builder(TENANT, RUN)
        .backend(join(&coordinator).await)
        .connector(Numbers)
        .handler(each(move |item: Item| {
            called.fetch_add(1, Ordering::Relaxed);
            async move { Ok(line(&item)) }
        }))
        .env(Asleep { env: env(), reads: AtomicU32::new(0) })
        .stop(stop.clone())
        .observer(Arc::new(StopsAfter(3, journal.clone(), stop)));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), RunOutcome::Stopped);
    assert_eq!((journal.count("claimed"), journal.count("lost")), (3, 3), "{:?}", journal.lines());
    assert_eq!(calls.load(Ordering::Relaxed), 0);
}
