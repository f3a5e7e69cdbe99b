//! Whoever was asked for a part of its work in vain is asked again when that may help.

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

/// What a source says when it is asked where to divide it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Once that it does not answer, and then where.
    Nothing,
    /// Always that it cannot be divided.
    Nowhere,
}

/// Numbers of which the first is read alone. What comes behind it can be read when the source was
/// asked where to divide it, or when the shard is divided.
struct Reserved {
    says: Says,
    asked: AtomicUsize,
    /// Closed when more can be read.
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
            return Numbers.page(range, from, PageLimit::items(1)).await;
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
        let asked_before = self.asked.fetch_add(1, Ordering::SeqCst);
        match self.says {
            Says::Nothing if asked_before == 0 => {
                let source = "it does not answer".into();
                Err(ConnectorError::Other { transient: true, source })
            }
            Says::Nothing => Numbers.propose_split(range, after, fraction).await,
            Says::Nowhere => Ok(None),
        }
    }

    async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(Vec::new())
    }
}

/// Closes what waits for an event.
struct Closes {
    on_indivisible: Arc<Semaphore>,
    on_split: Arc<Semaphore>,
}

impl Observer for Closes {
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

/// The first item ends when its shard is divided, and not before.
async fn is_divided_at_last(says: Says) -> usize {
    let coordinator = start(20, 1, Completed).await;
    let (_folder, sink) = sink();
    let [is_open, divided] = [0; 2].map(|_| Arc::new(Semaphore::new(0)));
    let connector =
        Arc::new(Reserved { says, asked: AtomicUsize::new(0), is_open: Arc::clone(&is_open) });
    let is_divided = Arc::clone(&divided);
    let handler = each(move |item: Item| {
        let is_divided = Arc::clone(&is_divided);
        async move {
            let _closed = is_divided.acquire().await;
            Ok(line(&item))
        }
    });
    let estimate_interval = Duration::from_millis(20);
    let worker = Worker::builder(TENANT, RUN)
        .backend(coordinator.clone())
        .connector(Arc::clone(&connector))
        .handler(handler)
        .sink(sink.clone())
        .env(env())
        .options(WorkerOptions { slots: 2, estimate_interval, ..WorkerOptions::default() })
        .observer(Arc::new(Closes { on_indivisible: is_open, on_split: divided }));
    let ending = timeout(LONG, worker.run()).await.unwrap();
    assert_eq!(ending.unwrap(), RunOutcome::Done);
    assert_eq!(results(&coordinator, &sink).await, all(20));
    connector.asked.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_source_did_not_answer_is_asked_again() {
    assert!(is_divided_at_last(Says::Nothing).await >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_could_not_divide_what_it_had_is_asked_again_when_it_has_read_more() {
    is_divided_at_last(Says::Nowhere).await;
}
