//! What a worker does when answers are lost and when it comes too late, and that both are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use shardwright_connectors::FolderSink;
use shardwright_contracts::CursorSemantics::Completed;
use shardwright_contracts::{BoxFuture, Env, LogicalTime};
use shardwright_coordination::ParkReason;
use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::memory::{After, Before, HookedCall, Hooks};
use shardwright_store::{Fault, FaultKind, Write};
use shardwright_worker::connector::Item;
use shardwright_worker::{
    Handler, ItemFailure, Observer, RunOutcome, StopSignal, Worker, WorkerEvent, WorkerOptions,
    each,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{
    Coordinator, Journal, LONG, Numbers, Paused, RUN, TENANT, all, env, finish, gives_up, join,
    line, memory, number, results, shards, sink, start, start_with_lease, worker_with, write_keys,
};

/// Loses the answer to the first commit with a certain write, and everything after it until
/// somebody mends the way.
struct LosesAnswer {
    is_the_one: fn(&Write) -> bool,
    has_lost: AtomicBool,
    is_cut_off: AtomicBool,
}

/// Whether something that names these bytes is written.
fn puts(write: &Write, wanted: &[u8]) -> bool {
    match write {
        Write::Put { value, .. } => value.windows(wanted.len()).any(|part| part == wanted),
        Write::Delete { .. } => false,
    }
}

impl LosesAnswer {
    fn of(is_the_one: fn(&Write) -> bool) -> Arc<Self> {
        let (has_lost, is_cut_off) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { is_the_one, has_lost, is_cut_off })
    }

    fn fault() -> Fault {
        Fault::new(FaultKind::Unreachable, "the way is cut off")
    }

    fn is_the_one(&self, call: HookedCall<'_>) -> bool {
        let HookedCall::Commit(commit) = call else { return false };
        commit.writes().iter().any(self.is_the_one)
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
        if self.is_the_one(call) && !self.has_lost.swap(true, Ordering::SeqCst) {
            self.is_cut_off.store(true, Ordering::SeqCst);
            return After::Lose(Self::fault());
        }
        After::Answer
    }
}

/// Mends the way when the worker has noticed that it is cut off.
struct Mender {
    hooks: Arc<LosesAnswer>,
    journal: Journal,
}

impl Observer for Mender {
    fn event(&self, slot: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Trouble { .. } = event {
            self.hooks.is_cut_off.store(false, Ordering::SeqCst);
        }
        self.journal.event(slot, event);
    }
}

/// A worker on fifty numbers to which one answer is lost.
async fn work_with_lost_answer(
    coordinator: &Coordinator,
    sink: &FolderSink,
    is_the_one: fn(&Write) -> bool,
    handler: impl Handler,
    stop: StopSignal,
) -> RunOutcome {
    let hooks = LosesAnswer::of(is_the_one);
    let store = memory(coordinator).client(Arc::clone(&hooks));
    let config = EngineConfig { skew_allowance_ms: 0, ..EngineConfig::default() };
    let backend = StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap();
    let journal = Journal::default();
    let mender = Mender { hooks: Arc::clone(&hooks), journal: journal.clone() };
    let worker = worker_with(backend, handler, sink)
        .options(WorkerOptions { commit_items: 1, ..WorkerOptions::default() })
        .stop(stop)
        .observer(Arc::new(mender));
    let ending = timeout(LONG, worker.run()).await.unwrap().unwrap();
    assert!(hooks.has_lost.load(Ordering::SeqCst), "{:?}", journal.lines());
    let told = ["replayed", "refused", "lost"].map(|kind| journal.count(kind));
    assert_eq!(told, [1, 0, 0], "{:?}", journal.lines());
    ending
}

/// In the middle of a shard that is a checkpoint, and at its end a completion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_was_lost_is_repeated_takes_effect_once_and_is_told() {
    let cases: [fn(&Write) -> bool; 2] =
        [|write| puts(write, b"000019"), |write| puts(write, b"000049")];
    for is_the_one in cases {
        let coordinator = start(50, 1, Completed).await;
        let (_folder, sink) = sink();
        let handler = write_keys();
        let stop = StopSignal::default();
        let ending = work_with_lost_answer(&coordinator, &sink, is_the_one, handler, stop).await;
        assert_eq!(ending, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(50));
    }
}

/// What comes behind the item becomes a shard of its own, and then the item is parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_is_with_both_writes_that_set_an_item_aside() {
    let cases: [fn(&Write) -> bool; 2] =
        [|write| puts(write, b"000007"), |write| puts(write, b"no luck")];
    for is_the_one in cases {
        let coordinator = start(50, 1, Completed).await;
        let (_folder, sink) = sink();
        let handler = each(|item: Item| async move {
            if number(&item.key) == 7 {
                return Err(ItemFailure::fatal(ParkReason::Other, "no luck"));
            }
            Ok(line(&item))
        });
        let stop = StopSignal::default();
        let ending = work_with_lost_answer(&coordinator, &sink, is_the_one, handler, stop).await;
        assert_eq!(ending, RunOutcome::Parked { shards: 1 });
        let kept: Vec<String> = all(50).into_iter().filter(|key| key != "000007").collect();
        assert_eq!(results(&coordinator, &sink).await, kept);
        assert_eq!(shards(&coordinator).await.len(), 2, "it was split once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_it_is_with_the_write_that_gives_a_shard_back() {
    let coordinator = start(50, 1, Completed).await;
    let (_folder, sink) = sink();
    let stop = StopSignal::default();
    let told = stop.clone();
    let handler = each(move |item: Item| {
        if number(&item.key) == 7 {
            told.stop();
        }
        async move { Ok(line(&item)) }
    });
    let ending = work_with_lost_answer(&coordinator, &sink, gives_up, handler, stop).await;
    assert_eq!(ending, RunOutcome::Stopped);
    assert_eq!(results(&coordinator, &sink).await, all(8));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_paused_worker_writes_too_late_is_refused_and_told() {
    let coordinator = start_with_lease(50, 1, Completed, 300).await;
    let (_folder, sink) = sink();
    let (stuck, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (is_stuck, told) = (Arc::clone(&stuck), Arc::clone(&go_on));
    let handler = each(move |item: Item| {
        let (is_stuck, told) = (Arc::clone(&is_stuck), Arc::clone(&told));
        async move {
            if number(&item.key) == 20 {
                is_stuck.notify_one();
                told.notified().await;
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
    // Its lease ends, because nobody renews it, and somebody else does the rest.
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    go_on.notify_one();
    assert_eq!(timeout(LONG, working).await.unwrap().unwrap().unwrap(), RunOutcome::Done);
    let told = ["refused", "lost", "replayed"].map(|kind| journal.count(kind));
    assert_eq!(told, [1, 1, 0], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(50));
}

const LEASE: Duration = Duration::from_mins(10);

/// A machine that sleeps for the time of a lease whenever its clock was read.
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

/// Stops a worker that has lost so many shards.
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
async fn a_lease_whose_grant_is_answered_too_late_is_not_worked_under() {
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
