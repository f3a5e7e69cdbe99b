//! Runs over sources of any size: in parallel, resumable after any kill, each result exactly once.
//!
//! A run has a name. The first process that runs it begins it, further processes join, and a
//! process that starts after a kill resumes it. Shards, leases, checkpoints, splits of slow shards
//! and retries are the library's work.
//!
//! ```no_run
//! use shardwright::{Item, Shardwright, connectors::Lines};
//!
//! #[tokio::main]
//! async fn main() -> shardwright::Result<()> {
//!     let shardwright = Shardwright::open("file:state").await?;
//!     let outcome = shardwright
//!         .run("squares") // begins, joins or resumes the run of this name
//!         .source(Lines::open("numbers.txt").await?)
//!         .results("results") // each result exactly once, in key order
//!         .each(async |item: Item| {
//!             let n: u64 = item.text()?.parse()?;
//!             Ok(format!("{n} {}\n", n * n))
//!         })
//!         .await?;
//!     println!("{outcome}"); // 10000 items done, 0 parked
//!     Ok(())
//! }
//! ```
//!
//! | to | use |
//! |---|---|
//! | read rows, files or objects | [`connectors`] |
//! | read anything else | [`Connector`] |
//! | run a function per item | [`Run::each`] |
//! | run programs | `process` (a feature), or a [`Handler`] with [`Run::handler`] |
//! | stop before the end | [`StopSignal`] with [`Run::stop`] |
#![forbid(unsafe_code)]

mod each;
mod outcome;
mod run;

use std::path::PathBuf;

pub use each::{IntoResult, ItemError};
pub use outcome::{Error, Outcome, Result, RunEnd};
pub use run::Run;
use shardwright_jobs::Coordinator;
use shardwright_jobs::begin::state_folder;
use shardwright_store::StoreAddress;
pub use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position,
};
pub use shardwright_worker::handler::{Handler, ItemFailure, Outcome as ItemOutcome};
pub use shardwright_worker::{Observer, StopSignal, WorkerEvent};

/// Sources.
pub mod connectors {
    #[cfg(feature = "objects")]
    pub use shardwright_connectors::ObjectConnector as Objects;
    pub use shardwright_connectors::{
        LineConnector as Lines, LineOptions, Separator, TreeConnector as Tree, TreeOptions,
    };
    pub use shardwright_worker::connector::{
        Quantity, SkipReason, SkipReport, SkipReports, SourceEstimate, SourceFingerprint,
    };
}

/// What a [`Handler`] of its own needs to know of its items.
pub mod handler {
    pub use shardwright_worker::handler::{Assignment, Batch, FailureCause};
}

/// Handlers that are programs.
#[cfg(feature = "process")]
pub mod process {
    pub use shardwright_process::{
        BatchInput, PersistentProcess, ProcessGuard, ProcessPerBatch, ProcessPerItem, Spill,
        Template,
    };
}

/// A store that keeps runs, opened.
pub struct Shardwright {
    store: StoreAddress,
    coordinator: Coordinator,
    /// The folder of this machine for what belongs to runs but is not in the store.
    state: PathBuf,
}

impl Shardwright {
    /// Opens the store at a URL: `file:FOLDER`, `memory:`, or with the feature `etcd`
    /// `etcd://HOST:PORT[,HOST:PORT…]`.
    ///
    /// Must be called on a tokio runtime. Beside a store on etcd, this machine keeps what belongs
    /// to it in the folder `.shardwright`.
    pub async fn open(url: &str) -> Result<Self> {
        let store: StoreAddress = url.parse().map_err(Error::Url)?;
        let state = state_folder(&store).map_err(Error::job)?;
        let coordinator = shardwright_jobs::open(&store).await.map_err(Error::job)?;
        Ok(Self { store, coordinator, state })
    }

    /// The run of a name: it is begun, joined or resumed when it gets its handler.
    #[must_use]
    pub fn run<'a>(&'a self, name: &'a str) -> Run<'a> {
        Run::new(self, name)
    }

    /// Ends the session of this process, so that no other process waits for its expiry.
    pub async fn close(self) -> Result<()> {
        self.coordinator.close().await.map_err(Error::job)
    }
}
