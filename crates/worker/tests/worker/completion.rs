//! What a worker tells of a shard that it has just finished, set aside or given back.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_coordination::ParkReason;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::memory::{After, Before, HookedCall, Hooks};
use shardwright_worker::connector::Item;
use shardwright_worker::{Handler, ItemFailure, RunOutcome, StopSignal, WorkerOptions, each};
use tokio::time::timeout;

use crate::support::{
    Journal, LONG, all, env, gives_up, line, memory, number, results, sink, start_with_lease,
    worker_with, write_keys,
};

const LEASE_MS: u64 = 6_000;
/// Longer than from one renewal of a lease to the next, and with one of them shorter than a lease.
const HELD_UP: Duration = Duration::from_millis(2_400);

/// Holds up the answer to whatever ends the holding of a shard, until a lease would have been
/// renewed meanwhile.
struct LateAnswer;

impl Hooks for LateAnswer {
    async fn before(&self, _: HookedCall<'_>) -> Before {
        Before::Go
    }

    async fn after(&self, call: HookedCall<'_>) -> After {
        if let HookedCall::Commit(commit) = call
            && commit.writes().iter().any(gives_up)
        {
            tokio::time::sleep(HELD_UP).await;
        }
        After::Answer
    }
}

/// How a worker ends to which the answer comes late, and how many of fifty results there are.
async fn work_with_late_answer(
    handler: impl Handler,
    stop: StopSignal,
) -> (RunOutcome, Journal, usize) {
    let coordinator = start_with_lease(50, 1, Completed, LEASE_MS).await;
    let (_folder, sink) = sink();
    let store = memory(&coordinator).client(Arc::new(LateAnswer));
    let config = EngineConfig { skew_allowance_ms: 0, ..EngineConfig::default() };
    let backend = StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap();
    let journal = Journal::default();
    let worker = worker_with(backend, handler, &sink)
        .options(WorkerOptions { slots: 1, ..WorkerOptions::default() })
        .stop(stop)
        .observer(Arc::new(journal.clone()));
    let ending = timeout(LONG, worker.run()).await.unwrap().unwrap();
    let told = ["claimed", "lost"].map(|kind| journal.count(kind));
    assert_eq!(told, [1, 0], "{:?}", journal.lines());
    let results = results(&coordinator, &sink).await;
    assert_eq!(results, all(results.len()));
    (ending, journal, results.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_comes_after_the_completion_is_no_loss() {
    let handler = write_keys();
    let (ending, _, results) = work_with_late_answer(handler, StopSignal::default()).await;
    assert_eq!((ending, results), (RunOutcome::Done, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_one_that_comes_after_the_shard_was_set_aside() {
    let handler = each(|item: Item| async move {
        if number(&item.key) == 49 {
            return Err(ItemFailure::fatal(ParkReason::Other, "no luck"));
        }
        Ok(line(&item))
    });
    let (ending, journal, results) = work_with_late_answer(handler, StopSignal::default()).await;
    assert_eq!((ending, results), (RunOutcome::Parked { shards: 1 }, 49));
    assert_eq!(journal.count("parked 000049"), 1, "{:?}", journal.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_one_that_comes_after_the_shard_was_given_back() {
    let stop = StopSignal::default();
    let told = stop.clone();
    let handler = each(move |item: Item| {
        if number(&item.key) == 7 {
            told.stop();
        }
        async move { Ok(line(&item)) }
    });
    let (ending, journal, results) = work_with_late_answer(handler, stop).await;
    assert_eq!((ending, results), (RunOutcome::Stopped, 8));
    assert_eq!(journal.count("released"), 1, "{:?}", journal.lines());
}
