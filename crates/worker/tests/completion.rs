//! What a worker tells of a shard that it has just finished.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that panics is a test that fails"
)]

#[allow(dead_code, reason = "each test uses its own part")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{EngineConfig, StoredCoordinator};
use shardwright_store::Write;
use shardwright_store::memory::{After, Before, Call, Hooks};
use shardwright_worker::connector::Item;
use shardwright_worker::{Ending, Worker, WorkerOptions, each};
use support::{
    Journal, LONG, Numbers, RUN, TENANT, all, env, line, results, sink, start_with_lease,
};
use tokio::time::timeout;

const LEASE_MS: u64 = 6_000;
/// Longer than from one renewal of a lease to the next, and with one of them shorter than a lease.
const HELD_UP: Duration = Duration::from_millis(2_400);

/// Holds up the answer to whatever writes a key, until a lease has been renewed meanwhile.
struct LateAnswer {
    key: &'static [u8],
}

impl Hooks for LateAnswer {
    async fn before(&self, _: Call<'_>) -> Before {
        Before::Go
    }

    async fn after(&self, call: Call<'_>) -> After {
        let names_key = |write: &Write| match write {
            Write::Put { value, .. } => value.windows(self.key.len()).any(|part| part == self.key),
            Write::Delete { .. } => false,
        };
        if let Call::Commit(commit) = call
            && commit.writes().iter().any(names_key)
        {
            tokio::time::sleep(HELD_UP).await;
        }
        After::Answer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_comes_after_the_completion_is_no_loss() {
    let coordinator = start_with_lease(50, 1, Completed, LEASE_MS).await;
    let (_folder, sink) = sink();
    let store = coordinator.store().client(Arc::new(LateAnswer { key: b"000049" }));
    let config = EngineConfig { skew_allowance_ms: 0, ..EngineConfig::default() };
    let backend = StoredCoordinator::open(store, env(), Keyspace::default(), config).await.unwrap();
    let journal = Journal::default();
    let worker = Worker::builder(TENANT, RUN)
        .backend(backend)
        .connector(Numbers)
        .job(each(|item: Item| async move { Ok(line(&item)) }))
        .sink(sink.clone())
        .env(env())
        .options(WorkerOptions { slots: 1, ..WorkerOptions::default() })
        .observer(Arc::new(journal.clone()));
    assert_eq!(timeout(LONG, worker.run()).await.unwrap().unwrap(), Ending::Done);
    let told = ["claimed", "lost"].map(|kind| journal.count(kind));
    assert_eq!(told, [1, 0], "{:?}", journal.lines());
    assert_eq!(results(&coordinator, &sink).await, all(50));
}
