//! A handler that fails for every item stops the worker, and parks no item.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardwright_contracts::CursorSemantics::{self, Completed, Dispatched};
use shardwright_coordination::ParkReason;
use shardwright_worker::connector::Item;
use shardwright_worker::handler::{Batch, Outcome};
use shardwright_worker::{Handler, ItemFailure, RunOutcome, WorkerError, WorkerOptions, each};
use tokio::time::timeout;

use crate::support::{
    Coordinator, Hurried, Journal, LONG, all, env, finish, join, line, number, results, sink,
    start_with_lease, worker_with,
};

/// A run with leases long enough for a fast clock.
async fn begin(count: usize, shards: usize, semantics: CursorSemantics) -> Coordinator {
    start_with_lease(count, shards, semantics, 600_000).await
}

/// A handler that fails for its worker from an item on.
struct FailsFrom {
    from: usize,
    batch: usize,
    tries: Arc<AtomicUsize>,
}

impl Handler for FailsFrom {
    fn batch_size(&self) -> usize {
        self.batch
    }

    fn failure_record(&self, item: &Item, _: &ItemFailure) -> Outcome {
        Ok([b"failed ", line(item).as_slice()].concat())
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        let fails = |item: &Item| number(&item.key) >= self.from;
        self.tries.fetch_add(usize::from(batch.items.iter().any(fails)), Ordering::Relaxed);
        let each = batch.items.iter().map(|item| match fails(item) {
            true => Err(ItemFailure::retryable("a tool is missing").of_worker()),
            false => Ok(line(item)),
        });
        each.collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_failure_is_retried_with_one_item_only() {
    let coordinator = begin(40, 1, Completed).await;
    let (_folder, sink) = sink();
    let (journal, tries) = (Journal::default(), Arc::new(AtomicUsize::new(0)));
    let worker = worker_with(
        join(&coordinator).await,
        FailsFrom { from: 25, batch: 10, tries: Arc::clone(&tries) },
        &sink,
    )
    .env(Hurried(env()))
    .observer(Arc::new(journal.clone()));
    let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("a tool is missing"), "{error}");
    assert_eq!(journal.count("parked"), 0, "{:?}", journal.lines());
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(results(&coordinator, &sink).await, all(25));
    assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(40));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_worker_failure_no_item_is_started() {
    let coordinator = begin(40, 1, Completed).await;
    let tried = Arc::new(AtomicUsize::new(0));
    let tries = Arc::clone(&tried);
    let handler = each(move |item: Item| {
        let tries = Arc::clone(&tries);
        async move {
            if number(&item.key) > 0 {
                tries.fetch_add(1, Ordering::Relaxed);
                return Err(ItemFailure::permanent(ParkReason::Other, "failed").of_worker());
            }
            // The first is slow enough for others to be started.
            while tries.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            Ok(line(&item))
        }
    });
    let (_folder, sink) = sink();
    let worker = worker_with(join(&coordinator).await, handler, &sink)
        .options(WorkerOptions { in_flight: 2, ..WorkerOptions::default() });
    let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
    assert!(matches!(error, WorkerError::Handler { .. }), "{error:?}");
    assert_eq!(tried.load(Ordering::Relaxed), 1);
    assert_eq!(results(&coordinator, &sink).await, all(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_dispatch_a_worker_failure_leaves_a_record_per_item() {
    for from in [0, 25] {
        let coordinator = begin(100, 1, Dispatched).await;
        let (_folder, sink) = sink();
        let worker = worker_with(
            join(&coordinator).await,
            FailsFrom { from, batch: 1, tries: Arc::default() },
            &sink,
        )
        .env(Hurried(env()))
        .options(WorkerOptions { in_flight: 3, ..WorkerOptions::default() });
        let error = timeout(LONG, worker.run()).await.unwrap().unwrap_err();
        assert!(matches!(error, WorkerError::Handler { .. }), "{error:?}");
        assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
        let lines = results(&coordinator, &sink).await;
        let keys: Vec<&str> =
            lines.iter().map(|line| line.strip_prefix("failed ").unwrap_or(line)).collect();
        assert_eq!(keys, all(100));
        let failed = |lines: &[String]| lines.iter().any(|line| line.starts_with("failed"));
        // At most as many as may be in progress at a time.
        assert!(!failed(&lines[..from]) && !failed(&lines[from + 40..]), "{lines:?}");
    }
}
