//! A place to begin runs in, for tests.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

use std::path::PathBuf;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunDirectory as _, ParkReason, RunLabel, RunName};
use shardwright_engine::TokioEnv;
use shardwright_store::StoreAddress;
use shardwright_worker::connector::Connector as _;
use shardwright_worker::{ItemFailure, RunOutcome, Worker, each};

use crate::begin::{Begun, begin, state_folder};
use crate::description::{Description, Mode, Results};
use crate::options::JobOptions;
use crate::output::Output;
use crate::source::Source;
use crate::{Coordinator, TENANT, open};

/// The run of [`Bench::name_only`].
pub const RUN: RunId = RunId::from_raw(7);

/// A store, a folder with something to work on, and a place for results.
pub struct Bench {
    /// The store.
    pub store: StoreAddress,
    /// The coordinator on it.
    pub coordinator: Coordinator,
    /// The folder of this machine.
    pub state: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    /// Makes all that.
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("data/item"), "x").unwrap();
        let store = StoreAddress::File(folder.path().join("state"));
        let state = state_folder(&store).unwrap();
        let coordinator = open(&store).await.unwrap();
        Self { store, coordinator, state, folder }
    }

    /// A run named `it` of a command over the folder.
    #[must_use]
    pub fn options(&self, command: &str) -> JobOptions {
        JobOptions {
            source: Some(self.folder.path().join("data").into()),
            command: vec![command.into()],
            name: Some(RunName::new("it").unwrap()),
            out: Some(self.folder.path().join("out").into()),
            workers: 1,
            ..JobOptions::default()
        }
    }

    /// The same, to replace a run of that name.
    #[must_use]
    pub fn fresh(&self, command: &str) -> JobOptions {
        JobOptions { fresh: true, ..self.options(command) }
    }

    /// A scan named `it` of the folder.
    #[must_use]
    pub fn scan_options(&self) -> JobOptions {
        let mode = Mode::Scan { shows_secrets: false };
        let command = ["shardwright", "scan", &"07".repeat(32)].map(Into::into).to_vec();
        JobOptions { command, mode, ..self.options("") }
    }

    /// Works on a run in which nothing can be done.
    pub async fn park(&self, begun: Begun) {
        let worker = Worker::builder(TENANT, begun.run)
            .backend(self.coordinator.clone())
            .env(TokioEnv::current().unwrap())
            .connector(begun.connector)
            .handler(each(async |_| Err(ItemFailure::fatal(ParkReason::Other, "no"))))
            .sink(begun.output.sink());
        assert!(matches!(worker.run().await.unwrap(), RunOutcome::Parked { shards: 1 }));
    }

    /// Begins a run.
    pub async fn begin(&self, options: &JobOptions) -> anyhow::Result<Begun> {
        begin(&self.store, &self.coordinator, &self.state, options).await
    }

    /// Does what beginning a run does, up to giving it its name.
    pub async fn name_only(&self, options: &JobOptions) -> (RunId, Output) {
        self.name_instead_of(options, None).await
    }

    /// The same, in the place of a run that is there.
    pub async fn name_instead_of(
        &self,
        options: &JobOptions,
        replaced: Option<RunId>,
    ) -> (RunId, Output) {
        let source = Source::from_options(options, &self.state).await.unwrap();
        let results = Results::said(options.out.as_ref().unwrap()).unwrap().made().unwrap();
        let name = options.name.unwrap();
        let output = Output::of(&results, &self.state, name).await.unwrap();
        let connector = source.open(None, &self.state, &[]).await.unwrap();
        let fingerprint = connector.fingerprint().await.unwrap();
        let ranges = connector.initial_ranges(2).await.unwrap();
        let description = Description::new(source, &fingerprint, options, results, &ranges);
        let job = RunLabel { name, description: description.encode().unwrap().into() };
        let named = self.coordinator.name_run(TENANT, RUN, &job, replaced).await.unwrap();
        assert_eq!(named, RUN);
        (RUN, output)
    }
}
