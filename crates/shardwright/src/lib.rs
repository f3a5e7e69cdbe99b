//! Process every item of a large source in parallel, resume after any crash, and get each result
//! exactly once.
//!
//! A *run* has a name, a source and a handler. The library divides the source into shards, leases
//! each shard to one worker, and moves a cursor over the finished items. The same program can be
//! started again after a kill, or started on more machines: all processes with the same store and
//! the same name work on one run.
//!
//! - [A first run](#a-first-run)
//! - [Sources](#sources)
//! - [A source of your own](#a-source-of-your-own)
//! - [Results, exactly once](#results-exactly-once)
//! - [Stop and resume](#stop-and-resume)
//! - [Failures](#failures)
//! - [Several processes](#several-processes)
//! - [Features](#features)
//!
//! # A first run
//!
//! Open a store, name a run, and give it a source and a function:
//!
//! ```
//! use shardwright::{Item, Shardwright, connectors::Lines};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = format!("file:{}", folder.path().join("state").display());
//! # let (file, results) = (folder.path().join("numbers.txt"), folder.path().join("results"));
//! # std::fs::write(&file, (0..1_000).map(|n| format!("{n}\n")).collect::<String>())?;
//! let shardwright = Shardwright::open(&store).await?; // such as `file:state`
//! let outcome = shardwright
//!     .run("squares") // starts, joins or resumes the run of this name
//!     .source(Lines::open(&file).await?)
//!     .results(&results)
//!     .each(async |item: Item| {
//!         let n: u64 = item.text()?.parse()?;
//!         Ok(format!("{n} {}\n", n * n))
//!     })
//!     .await?;
//! assert_eq!(outcome.to_string(), "1000 items done, 0 parked");
//!
//! let results = std::fs::read_to_string(outcome.results.unwrap())?;
//! assert!(results.starts_with("0 0\n1 1\n2 4\n3 9\n"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Run`] has the settings: how many workers and items at a time, retries, the lease.
//!
//! # Sources
//!
//! A source is a [`Connector`]. It enumerates items under keys that sort byte by byte.
//!
//! | source | item | key |
//! |---|---|---|
//! | [`connectors::Lines`] | a line of a file, or another row | the row number |
//! | [`connectors::Tree`] | a file of a directory tree | the path below the root |
//! | `connectors::Objects` | an object of a store | the path below the prefix |
//!
//! [`Item::text`] returns a row, a path or an address. [`Item::payload`] distinguishes them.
//!
//! # A source of your own
//!
//! One method is required: [`Connector::page`] returns the items of a key range after a position,
//! in key order. Splits and the first shards are derived from it by default.
//!
//! ```
//! use shardwright::{Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Position};
//! # use shardwright::Shardwright;
//!
//! /// The numbers below a bound. A key is a number in big-endian bytes, so that keys sort.
//! struct Numbers(u64);
//!
//! impl Connector for Numbers {
//!     async fn page(
//!         &self,
//!         range: &KeyRange,
//!         from: &Position,
//!         limit: PageLimit,
//!     ) -> Result<Page, ConnectorError> {
//!         let start = range.start_after(from);
//!         let keys = (0..self.0)
//!             .map(|n| (n, n.to_be_bytes()))
//!             .skip_while(|(_, key)| key[..] < start[..])
//!             .take_while(|(_, key)| range.is_below_end(key));
//!         let items = keys.map(|(n, key)| Item::row(key.to_vec(), n, n.to_string()));
//!         Ok(Page::take(items, limit))
//!     }
//! }
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = format!("file:{}", folder.path().join("state").display());
//! # let shardwright = Shardwright::open(&store).await?;
//! let run = shardwright.run("numbers").source(Numbers(100));
//! let outcome = run.each(async |item: Item| Ok(format!("{}\n", item.text()?))).await?;
//! assert_eq!(outcome.items, 100);
//! # Ok(())
//! # }
//! ```
//!
//! Implement [`Connector::fingerprint`] as well if a run must not be resumed on a changed source.
//! With the feature `conformance`, `conformance::check` tests a source against the contract.
//!
//! # Results, exactly once
//!
//! What the function returns is appended to the results ([`IntoResult`]). When the run is finished,
//! they are in the file `results.jsonl`: each result once, in key order. Beside it is the receipt
//! `receipt.json`, which states what was covered and what was not.
//!
//! A worker writes results to a segment of its own. The checkpoint that moves the cursor names the
//! bytes that hold them. A result that no committed cursor names does not exist, so a worker that
//! lost its lease cannot add one.
//!
//! The *function* may run more than once for an item: after a kill, items since the last checkpoint
//! are repeated. Effects outside the results should be idempotent. Use the run
//! ([`handler::Assignment`]) and the item's key: both stay the same when an item is repeated.
//! Shard, fence and sequence may change.
//!
//! # Stop and resume
//!
//! A [`StopSignal`] ends the work early. Items in progress are finished, cursors are committed, and
//! shards are released. Running the same name again resumes the run. [`Run::fresh`] starts it over
//! instead.
//!
//! ```
//! # use shardwright::{Item, Shardwright, connectors::Lines};
//! use shardwright::{RunEnd, StopSignal};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = format!("file:{}", folder.path().join("state").display());
//! # let file = folder.path().join("numbers.txt");
//! # std::fs::write(&file, (0..1_000).map(|n| format!("{n}\n")).collect::<String>())?;
//! # let shardwright = Shardwright::open(&store).await?;
//! # let source = Lines::open(&file).await?;
//! let stop = StopSignal::default();
//! let stopping = stop.clone();
//! let run = shardwright.run("rows").source(source.clone()).stop(stop);
//! let outcome = run
//!     .each(move |item: Item| {
//!         stopping.stop(); // a service would do this when it receives a signal
//!         async move { Ok(format!("{}\n", item.text()?)) }
//!     })
//!     .await?;
//! assert_eq!(outcome.end, RunEnd::Stopped);
//!
//! let run = shardwright.run("rows").source(source);
//! let outcome = run.each(async |item: Item| Ok(format!("{}\n", item.text()?))).await?;
//! assert_eq!((outcome.end, outcome.items), (RunEnd::Finished, 1_000));
//! # Ok(())
//! # }
//! ```
//!
//! A kill has the same effect, and items in flight run again. On a file store, other processes take
//! over at once. On etcd they wait until the session of the killed process or its lease ends
//! ([`Run::lease`]).
//!
//! # Failures
//!
//! | what fails | what happens |
//! |---|---|
//! | the function, for an item | the item is retried ([`Run::retries`]), then parked |
//! | the function, with [`ItemError::permanent`] | the item is parked at once |
//! | the process | other processes take over its shards, as described above |
//! | an item that kills its process | it is processed alone, and parked after ten losses |
//! | the store | calls are retried for two minutes, then the run returns [`Error::Worker`] |
//! | the source | transient errors are retried, others end the run with [`Error::Worker`] |
//!
//! Parked items are counted in the [`Outcome`], and listed with their errors in the receipt.
//!
//! ```
//! # use shardwright::{Item, Shardwright, connectors::Lines};
//! use shardwright::ItemError;
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let store = format!("file:{}", folder.path().join("state").display());
//! # let file = folder.path().join("words.txt");
//! # std::fs::write(&file, "one\ntwo\nthree\n")?;
//! # let shardwright = Shardwright::open(&store).await?;
//! # let source = Lines::open(&file).await?;
//! let outcome = shardwright
//!     .run("words")
//!     .source(source)
//!     .each(async |item: Item| match item.text()? {
//!         "two" => Err(ItemError::permanent("no retry can fix this")),
//!         word => Ok(format!("{word}\n")),
//!     })
//!     .await?;
//! assert_eq!((outcome.items, outcome.parked), (2, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # Several processes
//!
//! Processes share a run when they open the same store and name the same run. On one machine the
//! store is a folder (`file:FOLDER`). On several machines it is etcd (`etcd://HOST:PORT`), and
//! [`Run::results`] names a location that all machines reach. A worker without work requests a part
//! of the shard that will take longest.
//!
//! # Features
//!
//! | feature | adds | default |
//! |---|---|---|
//! | `etcd` | stores on etcd | on |
//! | `objects` | `connectors::Objects`, and results in object stores | on |
//! | `process` | the module `process`: handlers that are programs | on |
//! | `conformance` | the module `conformance`: the tests that every source must pass | off |
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
use shardwright_store::{StoreAddress, TrustedFolders};
#[cfg(feature = "conformance")]
pub use shardwright_worker::connector::conformance;
pub use shardwright_worker::connector::{
    Connector, ConnectorError, Item, KeyRange, Page, PageLimit, Payload, Position,
};
pub use shardwright_worker::handler::{Handler, ItemFailure, Outcome as ItemOutcome};
pub use shardwright_worker::{Observer, StopSignal, WorkerError, WorkerEvent};

/// Sources: rows of a file, files of a tree, objects of a store, and what a [`Connector`] returns.
///
/// ```
/// use shardwright::connectors::{Tree, TreeOptions};
///
/// # #[tokio::main]
/// # async fn main() -> shardwright::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let (root, state) = (folder.path(), folder.path().join("state"));
/// # std::fs::create_dir(&state).unwrap();
/// // Files of the store and of the results are not items.
/// let options = TreeOptions { state_folders: vec![state], ..TreeOptions::default() };
/// let tree = Tree::open_with(root, options).await?;
/// # let _ = tree;
/// # Ok(())
/// # }
/// ```
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

/// What a custom [`Handler`] receives and reports.
///
/// ```
/// use shardwright::handler::{Batch, ParkReason};
/// use shardwright::{Handler, ItemFailure, ItemOutcome};
///
/// /// Counts the bytes of rows, a hundred at a time.
/// struct Lengths;
///
/// impl Handler for Lengths {
///     fn batch_size(&self) -> usize {
///         100
///     }
///
///     async fn process(&self, batch: Batch<'_>) -> Vec<ItemOutcome> {
///         let length = |item: &shardwright::Item| match item.text() {
///             Ok(text) => Ok(format!("{}\n", text.len()).into_bytes()),
///             Err(error) => {
///                 Err(ItemFailure::permanent(ParkReason::Other, error.to_string()).own())
///             }
///         };
///         batch.items.iter().map(length).collect()
///     }
/// }
/// ```
pub mod handler {
    pub use shardwright_coordination::ParkReason;
    pub use shardwright_worker::handler::{Assignment, Batch, FailureCause};
}

/// Handlers that are programs: one process per item or batch, or persistent processes.
///
/// A program runs under a guard, which is this program, started again. So `main` must call
/// [`run_as_guard`](process::run_as_guard) first. Where that is impossible, start the guard with
/// another program: `ProcessGuard::start_with("/usr/bin/shardwright")`.
///
/// A guard ends everything that its program has started, even if this process is killed. If the
/// guard itself is killed, its program continues. To kill that as well, as the command line does,
/// call `ProcessGuard::adopt_orphans`. From then on, the loss of a guard kills every child of this
/// process that is not a guard and was started after the call.
///
/// ```standalone_crate
/// # use shardwright::{Shardwright, connectors::Lines};
/// use std::sync::Arc;
///
/// use shardwright::process::{ProcessGuard, ProcessPerItem, Spill, Template, run_as_guard};
///
/// # use std::process::ExitCode;
/// fn main() -> ExitCode {
///     if let Some(code) = run_as_guard() {
///         return code;
///     }
///     // …
/// #   run().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
/// }
///
/// # #[tokio::main]
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let store = format!("file:{}", folder.path().join("state").display());
/// # let file = folder.path().join("words.txt");
/// # std::fs::write(&file, "one\ntwo\nthree\n")?;
/// # let shardwright = Shardwright::open(&store).await?;
/// # let source = Lines::open(&file).await?;
/// let command = Template::new(&["echo".into(), "{}".into()])?; // `{}` stands for the item
/// let guard = Arc::new(ProcessGuard::start()?); // kills what outlives its work
/// let spill = Spill::new(folder.path().join("stdout"), 64 << 10); // holds long outputs
/// let handler = ProcessPerItem::new(command, guard, spill);
/// let outcome = shardwright.run("words").source(source).handler(handler).await?;
/// assert_eq!(outcome.items, 3);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "process")]
pub mod process {
    pub use shardwright_process::{
        BatchInput, PersistentProcess, Placeholders, ProcessGuard, ProcessPerBatch, ProcessPerItem,
        Spill, Template, run_as_guard,
    };
}

/// An open store, which holds runs.
pub struct Shardwright {
    store: StoreAddress,
    coordinator: Coordinator,
    /// The folder of this machine for files of runs that are not in the store.
    state: PathBuf,
}

impl Shardwright {
    /// Opens the store at a URL: `file:FOLDER`, `memory:`, or with the feature `etcd`
    /// `etcd://HOST:PORT[,HOST:PORT…]`.
    ///
    /// Must be called on a tokio runtime. With a store on etcd or in memory, files of this machine
    /// go to the folder `.shardwright`.
    ///
    /// State that another user owns is refused, unless the environment variable
    /// `SHARDWRIGHT_TRUSTED_FOLDERS` lists its folder.
    pub async fn open(url: &str) -> Result<Self> {
        let (store, trusted) =
            (url.parse::<StoreAddress>().map_err(Error::Url)?, TrustedFolders::from_env());
        trusted.check(store.state_folder()).map_err(Error::foreign)?;
        let store = store.with_trusted(trusted);
        let state = state_folder(&store).map_err(Error::job)?;
        let coordinator = shardwright_jobs::open(&store).await.map_err(Error::job)?;
        Ok(Self { store, coordinator, state })
    }

    /// Names a run. It is started, joined or resumed when it gets its handler.
    #[must_use]
    pub fn run<'a>(&'a self, name: &'a str) -> Run<'a> {
        Run::new(self, name)
    }

    /// Closes the session of this process, so that other processes need not wait for its expiry.
    pub async fn close(self) -> Result<()> {
        self.coordinator.close().await.map_err(Error::job)
    }
}
