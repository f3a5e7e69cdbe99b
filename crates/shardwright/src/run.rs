//! A named run.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunStatus, ShardStatus};
use shardwright_engine::TokioEnv;
use shardwright_jobs::begin::{Begun, begin_library};
use shardwright_jobs::conclude::Conclusion;
use shardwright_jobs::description::Mode;
use shardwright_jobs::journal::ProcessJournal;
use shardwright_jobs::output::RESULTS;
use shardwright_jobs::source::JournaledSource;
use shardwright_jobs::{JobOptions, TENANT};
use shardwright_worker::connector::{Connector, Item, SharedConnector};
use shardwright_worker::extent::TokenEnvelope;
use shardwright_worker::handler::Handler;
use shardwright_worker::{Observer, RunOutcome, StopSignal, Worker, WorkerOptions};

use crate::Shardwright;
use crate::each::{Each, IntoResult, ItemError};
use crate::outcome::{Error, Outcome, Result, RunEnd};

/// A named run and its settings. [`each`](Self::each) or [`handler`](Self::handler) starts, joins
/// or resumes it.
pub struct Run<'a> {
    shardwright: &'a Shardwright,
    name: &'a str,
    source: Option<SharedConnector>,
    results: Option<OsString>,
    fresh: bool,
    lease: Duration,
    stop: StopSignal,
    observer: Arc<dyn Observer>,
    options: WorkerOptions,
}

impl<'a> Run<'a> {
    pub(crate) fn new(shardwright: &'a Shardwright, name: &'a str) -> Self {
        let slots = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shardwright,
            name,
            source: None,
            results: None,
            fresh: false,
            lease: Duration::from_secs(10),
            stop: StopSignal::default(),
            observer: Arc::new(()),
            options: WorkerOptions { slots, ..WorkerOptions::default() },
        }
    }

    /// Sets the source. Joining or resuming a run requires the source that it was started with.
    ///
    /// If the store or the results are inside of a [`Tree`](crate::connectors::Tree), name their
    /// folders in [`TreeOptions`](crate::connectors::TreeOptions::state_folders).
    #[must_use]
    pub fn source(mut self, connector: impl Connector) -> Self {
        self.source = Some(SharedConnector::new(connector));
        self
    }

    /// Writes results to a folder, or below the URL of an object store. Every process of the run
    /// must reach the same location. When the run is finished, the file `results.jsonl` there holds
    /// each result exactly once, in key order.
    ///
    /// Default: `runs/NAME` in the folder of the store. With a store on etcd, each machine keeps
    /// the results of its own work.
    #[must_use]
    pub fn results(mut self, location: impl Into<OsString>) -> Self {
        self.results = Some(location.into());
        self
    }

    /// Starts the run over, even if there is one of that name.
    #[must_use]
    pub const fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    /// Sets the number of shards processed at a time [default: one per core].
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.options.slots = workers;
        self
    }

    /// Sets the number of items of a shard processed at a time [default: 1].
    #[must_use]
    pub const fn in_flight(mut self, items: usize) -> Self {
        self.options.in_flight = items;
        self
    }

    /// Sets how often a failing item is retried before it is parked [default: 2].
    #[must_use]
    pub const fn retries(mut self, retries: u32) -> Self {
        self.options.retry.retries = retries;
        self
    }

    /// Sets the lease in whole seconds [default: 10]. Shards of a silent process are taken over
    /// when it expires. Shards of a killed process are taken over at once on a file store. On
    /// etcd they are taken over when the session of the process or the lease ends.
    #[must_use]
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Stops early on a signal: items in progress are finished, and shards are released.
    #[must_use]
    pub fn stop(mut self, stop: StopSignal) -> Self {
        self.stop = stop;
        self
    }

    /// Sets the receiver of events.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observer = observer;
        self
    }

    /// Calls a function for each item, until the run is finished or stopped. What the function
    /// returns is appended to the results. An item for which it fails is retried, then parked.
    pub async fn each<F, R, T>(self, function: F) -> Result<Outcome>
    where
        F: Fn(Item) -> R + Send + Sync + 'static,
        R: Future<Output = std::result::Result<T, ItemError>> + Send,
        T: IntoResult + 'static,
    {
        self.handler(Each(function)).await
    }

    /// Passes batches of items to a handler, until the run is finished or stopped.
    pub async fn handler(self, handler: impl Handler) -> Result<Outcome> {
        let begun = self.begin().await?;
        if self.is_done(begun.run).await? {
            return self.conclude(&begun).await;
        }
        let Begun { run, connector, output, .. } = &begun;
        let journal = ProcessJournal::new(output.journal_folder(*run), Arc::clone(&self.observer));
        let source = JournaledSource {
            source: Arc::clone(connector),
            journal: Arc::clone(&journal),
            output: output.clone(),
            run: *run,
        };
        let end = Worker::builder(TENANT, *run)
            .backend(self.shardwright.coordinator.clone())
            .env(TokioEnv::current().ok_or(Error::NoRuntime)?)
            .connector(source)
            .handler(handler)
            .sink(output.sink())
            .options(self.options)
            .stop(self.stop.clone())
            .observer(journal)
            .run()
            .await;
        // Also after a failure, so that the receipt has the skipped entries of this process.
        let published = output.publish_journals(*run).await.map_err(Error::job);
        match end? {
            RunOutcome::Done | RunOutcome::Parked { .. } => {
                published?;
                self.conclude(&begun).await
            }
            RunOutcome::Stopped => self.progress(*run).await,
        }
    }

    async fn begin(&self) -> Result<Begun> {
        let Shardwright { store, coordinator, state } = self.shardwright;
        let name =
            RunName::new(self.name).map_err(|_| Error::Name { name: self.name.to_owned() })?;
        let source = self.source.clone();
        let source = source.ok_or_else(|| Error::NoSource { name: self.name.to_owned() })?;
        let options = JobOptions {
            mode: Mode::Library,
            name: Some(name),
            fresh: self.fresh,
            out: self.results.clone(),
            out_local: self.results.is_none() && store.is_shared(),
            lease_seconds: u16::try_from(self.lease.as_secs().max(1)).unwrap_or(u16::MAX),
            workers: self.options.slots,
            ..JobOptions::default()
        };
        begin_library(store, coordinator, state, &options, source).await.map_err(Error::job)
    }

    /// Whether the run is done. An error if it is paused, failed or cancelled.
    async fn is_done(&self, run: RunId) -> Result<bool> {
        let record = self.shardwright.coordinator.get_run(TENANT, run).await.map_err(Error::job)?;
        let status = match record.status {
            RunStatus::Done => return Ok(true),
            RunStatus::Initializing | RunStatus::Active if record.paused => "paused",
            RunStatus::Initializing | RunStatus::Active => return Ok(false),
            RunStatus::Failed => "failed",
            RunStatus::Cancelled => "cancelled",
        };
        Err(Error::NotActive { name: self.name.to_owned(), status })
    }

    /// Writes the result file and the receipt.
    async fn conclude(&self, begun: &Begun) -> Result<Outcome> {
        let Begun { name, run, description, output, .. } = begun;
        let coordinator = &self.shardwright.coordinator;
        let conclusion = Conclusion { coordinator, name: *name, run: *run, description, output };
        let receipt = conclusion.write().await.map_err(Error::job)?;
        Ok(Outcome {
            end: RunEnd::Finished,
            items: receipt.keys,
            parked: receipt.parked.len() as u64,
            results: Some(output.location(RESULTS)),
        })
    }

    /// Counts what is done and parked so far.
    async fn progress(&self, run: RunId) -> Result<Outcome> {
        let shards = self.shardwright.coordinator.inspect_shards(TENANT, run).await;
        let (mut items, mut parked) = (0, 0);
        for shard in shards.map_err(Error::job)? {
            let token =
                TokenEnvelope::decode(shard.cursor.as_update().token()).map_err(Error::job)?;
            items += token.items;
            parked += u64::from(shard.head.status == ShardStatus::Parked);
        }
        Ok(Outcome { end: RunEnd::Stopped, items, parked, results: None })
    }
}
