//! A store, a source and a location for results. The tests of the command line use it as well.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

use std::path::PathBuf;

use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunDirectory as _, ParkReason, RunLabel, RunName};
use shardwright_engine::TokioEnv;
use shardwright_jobs::begin::{Begun, begin, state_folder};
use shardwright_jobs::description::{Description, Mode};
use shardwright_jobs::output::Output;
use shardwright_jobs::{Coordinator, JobOptions, TENANT, open};
use shardwright_store::StoreAddress;
use shardwright_worker::{ItemFailure, RunOutcome, Worker, each};

/// The run of [`Bench::name_only`].
pub(crate) const RUN: RunId = RunId::from_raw(7);

/// A store, a folder with one item, and a folder for results.
pub(crate) struct Bench {
    pub(crate) store: StoreAddress,
    pub(crate) coordinator: Coordinator,
    /// The state folder of this machine.
    pub(crate) state: PathBuf,
    folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("data")).unwrap();
        std::fs::write(folder.path().join("data/item"), "x").unwrap();
        let store = StoreAddress::file(folder.path().join("state"));
        let state = state_folder(&store).unwrap();
        let coordinator = open(&store).await.unwrap();
        Self { store, coordinator, state, folder }
    }

    /// A run named `it` of a command over the folder.
    pub(crate) fn options(&self, command: &str) -> JobOptions {
        JobOptions {
            sources: vec![self.folder.path().join("data").into()],
            command: vec![command.into()],
            name: Some(RunName::new("it").unwrap()),
            out: Some(self.folder.path().join("out").into()),
            workers: 1,
            ..JobOptions::default()
        }
    }

    /// The same options with `fresh`.
    pub(crate) fn fresh(&self, command: &str) -> JobOptions {
        JobOptions { fresh: true, ..self.options(command) }
    }

    /// A scan named `it` of the folder.
    pub(crate) fn scan_options(&self) -> JobOptions {
        let mode = Mode::Scan { shows_secrets: false };
        let command = ["shardwright", "scan", &"07".repeat(32)].map(Into::into).to_vec();
        JobOptions { command, mode, ..self.options("") }
    }

    pub(crate) async fn begin(&self, options: &JobOptions) -> anyhow::Result<Begun> {
        begin(&self.store, &self.coordinator, &self.state, options).await
    }

    /// Processes a run whose only item fails.
    pub(crate) async fn park(&self, begun: Begun) {
        let worker = Worker::builder(TENANT, begun.run)
            .backend(self.coordinator.clone())
            .env(TokioEnv::current().unwrap())
            .connector(begun.connector)
            .handler(each(async |_| Err(ItemFailure::permanent(ParkReason::Other, "no"))))
            .sink(begun.output.sink());
        assert!(matches!(worker.run().await.unwrap(), RunOutcome::Parked { shards: 1 }));
    }

    /// Names a run like `begin`, but does not create it.
    pub(crate) async fn name_only(&self, options: &JobOptions) -> (RunId, Output) {
        // The same run on another store has the same description, and leaves a marker.
        let state = self.folder.path().join("another");
        std::fs::create_dir_all(&state).unwrap();
        let coordinator = open(&StoreAddress::Memory).await.unwrap();
        let begun = begin(&StoreAddress::Memory, &coordinator, &state, options).await.unwrap();
        std::fs::remove_dir_all(begun.output.folder()).unwrap();
        std::fs::create_dir(begun.output.folder()).unwrap();
        self.name(begun.name, &begun.description, None).await;
        (RUN, begun.output)
    }

    /// Gives the name of a run to another run, which is not created.
    pub(crate) async fn name_instead_of(&self, replaced: &Begun) {
        self.name(replaced.name, &replaced.description, Some(replaced.run)).await;
    }

    async fn name(&self, name: RunName, description: &Description, replaced: Option<RunId>) {
        let label = RunLabel { name, description: description.encode().unwrap().into() };
        let named = self.coordinator.name_run(TENANT, RUN, &label, replaced).await.unwrap();
        assert_eq!(named, RUN);
    }
}
