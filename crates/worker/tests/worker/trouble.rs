//! What becomes of a run when a part of its source is in trouble.

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
    Hurried, Journal, LONG, Numbers, Paused, RUN, TENANT, all, env, join, line, number, results,
    sink, start_with_lease, write_keys,
};

/// Numbers of which one is in trouble for ever.
#[derive(Clone)]
struct Shaky {
    bad: usize,
    /// Whether nothing but that one is.
    is_only_one: bool,
    reads: Arc<AtomicUsize>,
}

impl Connector for Shaky {
    async fn page(
        &self,
        range: &KeyRange,
        from: &Position,
        limit: PageLimit,
    ) -> Result<Page, ConnectorError> {
        let mut page = Numbers.page(range, from, limit).await?;
        let is_bad = |item: &Item| number(&item.key) == self.bad;
        if page.items.iter().any(is_bad) && !(limit.passes_over_trouble && self.is_only_one) {
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
async fn a_part_of_the_source_that_stays_in_trouble_is_passed_over_and_the_run_is_done() {
    for is_only_one in [true, false] {
        let coordinator = start_with_lease(40, 1, Completed, 600_000).await;
        let (_folder, sink) = sink();
        let (journal, reads) = (Journal::default(), Arc::new(AtomicUsize::new(0)));
        let worker = Worker::builder(TENANT, RUN)
            .backend(join(&coordinator).await)
            .connector(Shaky { bad: 20, is_only_one, reads: Arc::clone(&reads) })
            .handler(write_keys())
            .sink(sink.clone())
            .env(Hurried(env()))
            .options(WorkerOptions { page: PageLimit::items(8), ..WorkerOptions::default() })
            .observer(Arc::new(journal.clone()));
        let ending = timeout(LONG, worker.run()).await.unwrap();
        let told = journal.count("trouble the source says no: it does not answer");
        assert_eq!(told, 9, "{:?}", journal.lines());
        if is_only_one {
            assert_eq!((ending.unwrap(), reads.load(Ordering::Relaxed)), (RunOutcome::Done, 9));
            let read: Vec<String> = all(40).into_iter().filter(|key| key != "000020").collect();
            assert_eq!(results(&coordinator, &sink).await, read);
        } else {
            assert!(matches!(ending, Err(WorkerError::Source(_))), "{ending:?}");
            assert_eq!(reads.load(Ordering::Relaxed), 10);
        }
    }
}

/// Tells when a number is done.
struct Done(usize, Arc<Notify>);

impl Observer for Done {
    fn event(&self, _: usize, event: WorkerEvent<'_>) {
        if let WorkerEvent::Done { key, .. } = event
            && number(key) == self.0
        {
            self.1.notify_one();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_source_is_waited_for_the_work_on_what_was_read_goes_on() {
    let coordinator = start_with_lease(40, 1, Completed, 600_000).await;
    let (is_done, reads) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let asked = Arc::clone(&reads);
    let handler = each(move |item: Item| {
        let asked = Arc::clone(&asked);
        async move {
            // The last of its page: the next has been asked for in vain before it is done.
            while number(&item.key) == 7 && asked.load(Ordering::Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            Ok(line(&item))
        }
    });
    let worker = Worker::builder(TENANT, RUN)
        .backend(join(&coordinator).await)
        .connector(Shaky { bad: 8, is_only_one: true, reads })
        .handler(handler)
        // Whatever waits there waits for ever.
        .env(Paused(env()))
        .options(WorkerOptions { page: PageLimit::items(8), ..WorkerOptions::default() })
        .observer(Arc::new(Done(7, Arc::clone(&is_done))));
    let working = tokio::spawn(worker.run());
    timeout(LONG, is_done.notified()).await.unwrap();
    working.abort();
}
