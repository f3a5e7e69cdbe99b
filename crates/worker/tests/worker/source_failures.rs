//! A source that fails as a whole or in parts, or breaks its contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shardwright_contracts::CursorSemantics::Completed;
use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Position,
};
use shardwright_worker::{
    Observer, RunOutcome, Worker, WorkerError, WorkerEvent, WorkerOptions, each,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{
    Hurried, Journal, LONG, Numbers, Paused, RUN, TENANT, all, env, finish, join, key, line,
    number, results, sink, start_with_lease, write_keys,
};

/// Numbers of which one can never be read.
#[derive(Clone)]
struct Failing {
    bad: usize,
    /// Whether the connector can skip that number.
    can_skip: bool,
    reads: Arc<AtomicUsize>,
}

impl Connector for Failing {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = Numbers.page(range, from, limit).await?;
        let is_bad = |item: &Item| number(&item.key) == self.bad;
        if page.items.iter().any(is_bad) && !(limit.skips_failing_parts && self.can_skip) {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let source = "it does not answer".into();
            return Err(ConnectorError::Other { transient: true, source });
        }
        page.items.retain(|item| !is_bad(item));
        Ok(page)
    }

    async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_part_of_the_source_is_skipped_after_retries() {
    for can_skip in [true, false] {
        let coordinator = start_with_lease(40, 1, Completed, 600_000).await;
        let (_folder, sink) = sink();
        let (journal, reads) = (Journal::default(), Arc::new(AtomicUsize::new(0)));
        let worker = Worker::builder(TENANT, RUN)
            .backend(join(&coordinator).await)
            .connector(Failing { bad: 20, can_skip, reads: Arc::clone(&reads) })
            .handler(write_keys())
            .sink(sink.clone())
            .env(Hurried(env()))
            .options(WorkerOptions { page: PageLimit::items(8), ..WorkerOptions::default() })
            .observer(Arc::new(journal.clone()));
        let outcome = timeout(LONG, worker.run()).await.unwrap();
        let retries = journal.count("retrying the source failed: it does not answer");
        assert_eq!(retries, 9, "{:?}", journal.lines());
        if can_skip {
            assert_eq!((outcome.unwrap(), reads.load(Ordering::Relaxed)), (RunOutcome::Done, 9));
            let read: Vec<String> = all(40).into_iter().filter(|key| key != "000020").collect();
            assert_eq!(results(&coordinator, &sink).await, read);
        } else {
            assert!(matches!(outcome, Err(WorkerError::Source(_))), "{outcome:?}");
            assert_eq!(reads.load(Ordering::Relaxed), 10);
        }
    }
}

/// Notifies when a number is done.
struct NotifiesDone(usize, Arc<Notify>);

impl Observer for NotifiesDone {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Done { key, .. } = event
            && number(key) == self.0
        {
            self.1.notify_one();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_already_read_are_processed_while_the_source_fails() {
    let coordinator = start_with_lease(40, 1, Completed, 600_000).await;
    let (is_done, reads) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let failed_reads = Arc::clone(&reads);
    let handler = each(move |item: Item| {
        let failed_reads = Arc::clone(&failed_reads);
        async move {
            // The last of its page finishes after a read of the next page has failed.
            while number(&item.key) == 7 && failed_reads.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            Ok(line(&item))
        }
    });
    let worker = Worker::builder(TENANT, RUN)
        .backend(join(&coordinator).await)
        .connector(Failing { bad: 8, can_skip: true, reads })
        .handler(handler)
        // So that the retry of the read never comes.
        .env(Paused(env()))
        .options(WorkerOptions { page: PageLimit::items(8), ..WorkerOptions::default() })
        .observer(Arc::new(NotifiesDone(7, Arc::clone(&is_done))));
    let working = tokio::spawn(worker.run());
    timeout(LONG, is_done.notified()).await.unwrap();
    working.abort();
}

type Spoil = fn(&mut Page, &Position);

/// Numbers with a page that is invalid in one way.
struct Invalid(Spoil);

impl Connector for Invalid {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = Numbers.page(range, from, limit).await?;
        (self.0)(&mut page, from);
        Ok(page)
    }

    async fn initial_ranges(&self, _: usize) -> Result<Vec<KeyRange>, ConnectorError> {
        Ok(Vec::new())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_page_stops_the_worker_and_loses_no_item() {
    let repeat: Spoil = |page, from| {
        page.items.truncate(10);
        page.ended = false;
        page.items.splice(..0, from.after.iter().map(|last| Item::row(last.clone(), 0, "")));
    };
    let invalid: [(Spoil, &str); 4] = [
        (|page, _| page.items.push(Item::row(key(41), 0, "")), "outside of the requested range"),
        (|page, _| page.items.reverse(), "do not rise"),
        (|page, _| *page = Page::default(), "empty"),
        (repeat, "not after the requested position"),
    ];
    for (spoil, problem) in invalid {
        let coordinator = start_with_lease(40, 1, Completed, 600_000).await;
        let (_folder, sink) = sink();
        let worker = Worker::builder(TENANT, RUN)
            .backend(join(&coordinator).await)
            .connector(Invalid(spoil))
            .handler(write_keys())
            .sink(sink.clone())
            .env(env());
        let failed = timeout(LONG, worker.run()).await.unwrap();
        let Err(WorkerError::Source(error @ ConnectorError::InvalidPage { .. })) = failed else {
            panic!("{failed:?}");
        };
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(finish(&coordinator, &sink).await, RunOutcome::Done);
        assert_eq!(results(&coordinator, &sink).await, all(40));
    }
}
