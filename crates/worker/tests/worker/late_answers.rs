//! A late reply to the operation that ends a holding is not reported as a loss.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_coordination::{ParkReason, ShardLimits};
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, StoredCoordinator};
use shardwright_store::memory::{After, Before, HookedCall, Hooks};
use shardwright_worker::connector::Item;
use shardwright_worker::{Handler, ItemFailure, RunOutcome, StopSignal, WorkerOptions, each};
use tokio::time::timeout;

use crate::support::{
    Journal, LONG, all, ends_ownership, env, line, memory, number, results, sink, start_on,
    worker_with, write_keys,
};

const LEASE_MS: u64 = 6_000;
/// Longer than the interval of renewals, and shorter than the rest of a lease.
const REPLY_DELAY: Duration = Duration::from_millis(2_400);

/// Delays the reply to the commit that ends the holding of a shard, so that a renewal comes first.
struct LateAnswer;

impl Hooks for LateAnswer {
    async fn before(&self, _: HookedCall<'_>) -> Before {
        Before::Go
    }

    async fn after(&self, call: HookedCall<'_>) -> After {
        if let HookedCall::Commit(commit) = call
            && commit.writes().iter().any(ends_ownership)
        {
            tokio::time::sleep(REPLY_DELAY).await;
        }
        After::Answer
    }
}

/// Runs a worker on fifty numbers with delayed replies. Returns its outcome and the number of
/// results.
async fn work_with_late_answer(
    handler: impl Handler,
    stop: StopSignal,
) -> (RunOutcome, Journal, usize) {
    let store = memory();
    let limits = ShardLimits::default();
    let coordinator = start_on(&store, 50, 1, Completed, LEASE_MS, limits).await;
    let (_folder, sink) = sink();
    let store = store.client(Arc::new(LateAnswer));
    let config =
        EngineConfig { skew_allowance_ms: 0, clock_mark_interval_ms: 0, ..EngineConfig::default() };
    let backend = StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap();
    let journal = Journal::default();
    let worker = worker_with(backend, handler, &sink)
        .options(WorkerOptions { slots: 1, ..WorkerOptions::default() })
        .stop(stop)
        .observer(Arc::new(journal.clone()));
    let outcome = timeout(LONG, worker.run()).await.unwrap().unwrap();
    let events = ["claimed", "lost"].map(|kind| journal.count(kind));
    assert_eq!(events, [1, 0], "{:?}", journal.lines());
    let results = results(&coordinator, &sink).await;
    assert_eq!(results, all(results.len()));
    (outcome, journal, results.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_after_completion_is_not_a_loss() {
    let handler = write_keys();
    let (outcome, _, results) = work_with_late_answer(handler, StopSignal::default()).await;
    assert_eq!((outcome, results), (RunOutcome::Done, 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_after_parking_is_not_a_loss() {
    let handler = each(|item: Item| async move {
        if number(&item.key) == 49 {
            return Err(ItemFailure::permanent(ParkReason::Other, "failed"));
        }
        Ok(line(&item))
    });
    let (outcome, journal, results) = work_with_late_answer(handler, StopSignal::default()).await;
    assert_eq!((outcome, results), (RunOutcome::Parked { shards: 1 }, 49));
    assert_eq!(journal.count("parked 000049"), 1, "{:?}", journal.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_after_release_is_not_a_loss() {
    let stop = StopSignal::default();
    let stopping = stop.clone();
    let handler = each(move |item: Item| {
        if number(&item.key) == 7 {
            stopping.stop();
        }
        async move { Ok(line(&item)) }
    });
    let (outcome, journal, results) = work_with_late_answer(handler, stop).await;
    assert_eq!((outcome, results), (RunOutcome::Stopped, 8));
    assert_eq!(journal.count("released"), 1, "{:?}", journal.lines());
}
