//! Split requests are repeated after a holder could not answer them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Position,
};
use shardwright_worker::{Observer, RunOutcome, Worker, WorkerEvent, WorkerOptions, each};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::support::{LONG, Numbers, RUN, TENANT, all, env, key, line, results, sink, start};

/// How a source answers `propose_split`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proposal {
    /// With an error the first time, and with a split later.
    FailsOnce,
    /// Always with none.
    Never,
    /// Always with the last item that was handed out, which is in progress.
    InProgress,
}

/// Numbers of which the first two are a page of their own. The rest can be read after the first
/// failed split, or after a split.
struct Reserved {
    proposal: Proposal,
    calls: AtomicUsize,
    /// Closed when the rest can be read.
    is_open: Arc<Semaphore>,
}

impl Connector for Reserved {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        if from.after.is_none() && range.start == key(0) {
            return Numbers.page(range, from, PageLimit::items(2)).await;
        }
        let _closed = self.is_open.acquire().await;
        Numbers.page(range, from, limit).await
    }

    async fn propose_split(
        &self,
        range: &KeyRange,
        after: Option<&[u8]>,
        fraction: f64,
    ) -> Result<Option<Vec<u8>>, ConnectorError> {
        let calls_before = self.calls.fetch_add(1, Ordering::SeqCst);
        match self.proposal {
            Proposal::FailsOnce if calls_before == 0 => {
                let source = "it does not answer".into();
                Err(ConnectorError::Other { transient: true, source })
            }
            Proposal::FailsOnce => Numbers.propose_split(range, after, fraction).await,
            Proposal::Never => Ok(None),
            Proposal::InProgress => Ok(after.map(<[u8]>::to_vec)),
        }
    }

    async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(Vec::new())
    }
}

/// Closes semaphores on events.
struct ClosesOnEvents {
    on_indivisible: Arc<Semaphore>,
    on_split: Arc<Semaphore>,
}

impl Observer for ClosesOnEvents {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        match event {
            WorkerEvent::Indivisible { .. } => self.on_indivisible.close(),
            WorkerEvent::Split { .. } => {
                self.on_indivisible.close();
                self.on_split.close();
            }
            _ => {}
        }
    }
}

/// Runs until the shard is split: before that, the first two items do not finish. Returns the
/// number of calls of `propose_split`.
async fn calls_until_split(proposal: Proposal) -> usize {
    let coordinator = start(20, 1, Completed).await;
    let (_folder, sink) = sink();
    let [is_open, divided] = [0; 2].map(|_| Arc::new(Semaphore::new(0)));
    let connector =
        Arc::new(Reserved { proposal, calls: AtomicUsize::new(0), is_open: Arc::clone(&is_open) });
    let is_divided = Arc::clone(&divided);
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let handler = each(move |item: Item| {
        count.fetch_add(1, Ordering::SeqCst);
        let is_divided = Arc::clone(&is_divided);
        async move {
            let _closed = is_divided.acquire().await;
            Ok(line(&item))
        }
    });
    let options = WorkerOptions {
        slots: 2,
        in_flight: 2,
        estimate_interval: Duration::from_millis(20),
        ..WorkerOptions::default()
    };
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(Arc::clone(&connector))
        .handler(handler)
        .sink(sink.clone())
        .env(env())
        .options(options)
        .observer(Arc::new(ClosesOnEvents { on_indivisible: is_open, on_split: divided }));
    let outcome = timeout(LONG, worker.run()).await.unwrap();
    assert_eq!(outcome.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(20));
    assert_eq!(handled.load(Ordering::SeqCst), 20, "an item had two holders");
    connector.calls.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_is_requested_again_after_the_source_failed() {
    assert!(calls_until_split(Proposal::FailsOnce).await >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_is_requested_again_after_more_was_read() {
    calls_until_split(Proposal::Never).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_before_an_item_in_progress_is_ignored() {
    assert!(calls_until_split(Proposal::InProgress).await >= 1);
}
