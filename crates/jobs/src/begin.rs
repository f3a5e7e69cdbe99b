//! Finding the run that a command names, or creating it.
//!
//! The creator of a run first checks that the location of the results is free, and writes the
//! marker of the run there. Only then it gives the run its name. A process that finds the run by
//! its name must find the marker as well. So no process joins that cannot reach the results, not
//! even before the run is created.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use shardwright_contracts::{CursorSemantics, OpId, RunId};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, CreateRunError, CreateRunWithShardsError,
    NameRunError, RegisterShardsError, RunConfig, RunLabel, RunName, RunQueryError, RunRecord,
    RunStatus, RunTransitionError,
};
use shardwright_engine::random;
use shardwright_store::{StoreAddress, create_private_folder};
use shardwright_worker::connector::{Connector, SharedConnector};
use shardwright_worker::{create_run, first_shards};

use crate::Coordinator;
use crate::TENANT;
use crate::agreement::Requested;
use crate::description::{Description, Mode, Results, future_path};
use crate::interface::Interface;
use crate::options::{JobOptions, readable_name};
use crate::output::{Output, default_folder};
use crate::source::{AnyConnector, Source};

/// First shards per worker. Splits add more.
const SHARDS_PER_WORKER: usize = 4;
const MOST_SHARDS: usize = 256;
/// How often another process may rename the run before this one gives up.
const MOST_TRIES: usize = 16;

/// The remedy when the limit of shards is reached.
pub const HOW_TO_FREE_SHARDS: &str = "ended runs count until they are deleted: `shardwright gc \
     --keep-days 7` deletes those that ended more than 7 days ago, and keeps their results";

/// A run that was found or created.
pub struct Begun {
    /// Its name.
    pub name: RunName,
    /// Its id.
    pub run: RunId,
    /// Its description.
    pub description: Description,
    /// Its source.
    pub connector: Arc<AnyConnector>,
    /// Its results.
    pub output: Output,
    /// Whether it existed before.
    pub is_resumed: bool,
}

/// The folder for files of this machine, which is created if necessary.
pub fn state_folder(store: &StoreAddress) -> anyhow::Result<PathBuf> {
    let folder = store.state_folder();
    create_private_folder(folder)
        .with_context(|| format!("{} cannot be created", folder.display()))?;
    Ok(std::fs::canonicalize(folder)?)
}

/// Checks a request before anything is created: whether its command can be run, and whether the
/// source can be read and does not contain the state or the results.
pub async fn check(store: &StoreAddress, options: &JobOptions) -> anyhow::Result<()> {
    let state = future_path(store.state_folder())?;
    let results = requested_results(options)?;
    let source = Source::without_stdin(options)?;
    #[cfg(feature = "commands")]
    crate::command::check(options, source.as_ref())?;
    let Some(source) = source else { return Ok(()) };
    source.ensure_apart(&state)?;
    if let Some(results) = &results {
        source.ensure_without(results)?;
    }
    // Opening a file of rows reads all of it, and stores an index.
    if !matches!(source, Source::Lines { .. }) {
        let ours: Vec<PathBuf> = state.is_dir().then_some(state.clone()).into_iter().collect();
        drop(source.open(&[], &state, &ours).await?);
    }
    Ok(())
}

/// The requested location of the results, if there is one.
pub(crate) fn requested_results(options: &JobOptions) -> anyhow::Result<Option<Results>> {
    match &options.out {
        _ if options.out_local => Ok(Some(Results::Local)),
        Some(out) => Results::parse(out).map(Some),
        None => Ok(None),
    }
}

/// The location of the results of a new run.
pub(crate) fn location_of(
    store: &StoreAddress,
    options: &JobOptions,
    state: &Path,
    name: RunName,
) -> anyhow::Result<Results> {
    let requested = requested_results(options)?;
    anyhow::ensure!(
        requested.is_some() || !store.is_shared(),
        "a shared store needs a location for results: --out with a FOLDER or URL that every \
         worker reaches, or --out-local to keep them on each machine"
    );
    Ok(requested.unwrap_or_else(|| Results::folder(&default_folder(state, name))))
}

/// The wanted number of first shards.
pub(crate) fn shards_of(options: &JobOptions) -> usize {
    let by_workers = || (options.workers * SHARDS_PER_WORKER).min(MOST_SHARDS);
    options.shards.map_or_else(by_workers, usize::from)
}

/// Finds or creates the run of this source and command.
pub async fn begin(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    options: &JobOptions,
) -> anyhow::Result<Begun> {
    let source = Source::from_options(options, state).await?;
    let name = options.name.unwrap_or_else(|| derived_name(&source, options));
    Wanted { store, coordinator, state, options, source, library: None, name }.begin().await
}

/// Finds or creates a named run whose source and handler are code of this program.
pub async fn begin_library(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    options: &JobOptions,
    connector: SharedConnector,
) -> anyhow::Result<Begun> {
    let name = options.name.context("a run of a library needs a name")?;
    let source = Source::Library { identity: connector.fingerprint().await?.identity };
    let library = Some(connector);
    Wanted { store, coordinator, state, options, source, library, name }.begin().await
}

/// The requested run.
struct Wanted<'a> {
    store: &'a StoreAddress,
    coordinator: &'a Coordinator,
    state: &'a Path,
    options: &'a JobOptions,
    source: Source,
    /// The source itself, if it is code.
    library: Option<SharedConnector>,
    name: RunName,
}

impl Wanted<'_> {
    async fn begin(&self) -> anyhow::Result<Begun> {
        for _ in 0..MOST_TRIES {
            if let Some(begun) = self.find_or_create().await? {
                return Ok(begun);
            }
        }
        anyhow::bail!(
            "run {} was restarted by another process {MOST_TRIES} times in a row; try again",
            self.name
        )
    }

    /// Opens the source. Files in `ours` are not items.
    async fn open(&self, ours: &[PathBuf]) -> anyhow::Result<AnyConnector> {
        match &self.library {
            Some(connector) => Ok(AnyConnector::Library(connector.clone())),
            None => self.source.open(&self.options.given(), self.state, ours).await,
        }
    }

    /// One try to find or create the run. None if another process renamed it meanwhile.
    async fn find_or_create(&self) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, name, .. } = self;
        let found = coordinator.find_run(TENANT, *name).await?;
        if let Some(run) = found
            && !self.options.fresh
            && let Some(label) = coordinator.label_of(TENANT, run).await?
        {
            let description = Description::decode(&label.description)?;
            if !self.is_replaceable(run, &description).await? {
                return self.join(run, description).await;
            }
        }
        self.create(found).await
    }

    /// Whether a new run replaces the one of the name. That is so for a run that was named and
    /// never created, if it differs from the request or has no marker. It is also so for a scan
    /// that is over: repeating a scan means to scan the current files.
    async fn is_replaceable(&self, run: RunId, description: &Description) -> anyhow::Result<bool> {
        match self.coordinator.get_run(TENANT, run).await {
            Ok(record) => {
                let are_scans = matches!(description.mode, Mode::Scan { .. });
                let are_scans = are_scans && self.options.is_scan();
                Ok(are_scans && self.is_over(&record).await?)
            }
            Err(RunQueryError::RunNotFound(_)) => {
                let results = self.requested_results()?;
                if !self.requested(results.as_ref()).differing(description).is_empty() {
                    return Ok(true);
                }
                let results = results.as_ref().unwrap_or(&description.results);
                let output = Output::of(results, self.state, self.name).await?;
                Ok(!output.is_reserved(run).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a run has nothing left to do. Parked items wait for an operator.
    async fn is_over(&self, record: &RunRecord) -> anyhow::Result<bool> {
        Ok(match record.status {
            RunStatus::Initializing => false,
            RunStatus::Active => {
                self.coordinator.get_run_progress(TENANT, record.run).await?.active == 0
            }
            RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled => true,
        })
    }

    const fn requested<'a>(&'a self, results: Option<&'a Results>) -> Requested<'a> {
        Requested { options: self.options, source: &self.source, results }
    }

    /// Joins a run, if it is the requested one. None if it was replaced meanwhile.
    async fn join(&self, run: RunId, description: Description) -> anyhow::Result<Option<Begun>> {
        match self.try_join(run, description).await {
            Ok(begun) => Ok(Some(begun)),
            // Another process has just restarted it.
            Err(_) if self.is_renamed(Some(run)).await? => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Whether the name belongs to another run than `found`.
    async fn is_renamed(&self, found: Option<RunId>) -> anyhow::Result<bool> {
        Ok(self.coordinator.find_run(TENANT, self.name).await? != found)
    }

    async fn try_join(&self, run: RunId, mut description: Description) -> anyhow::Result<Begun> {
        let results = self.requested_results()?;
        self.requested(results.as_ref()).ensure_same(self.name, &description)?;
        description.limits = self.options.limits.or(description.limits);
        // The same locations, with the credentials of this process.
        if let Some(results) = results {
            description.results = results;
        }
        let found = Found { name: self.name, run, description };
        let open = async |ours: &[PathBuf]| self.open(ours).await;
        let begun = resume_with(self.coordinator, self.state, found, &self.source, open).await?;
        self.create_named(run, &begun.description).await?;
        Ok(begun)
    }

    /// Creates the run that has the name. If another run has the name by now, this one is
    /// cancelled.
    async fn create_named(&self, run: RunId, description: &Description) -> anyhow::Result<()> {
        create(self.coordinator, run, description, self.options.lease_seconds).await?;
        if self.is_renamed(Some(run)).await? {
            end(self.coordinator, run).await?;
            anyhow::bail!("run {} was restarted by another process", self.name);
        }
        Ok(())
    }

    /// Joins the run to which another process gave the name.
    async fn join_other(&self, named: RunId) -> anyhow::Result<Option<Begun>> {
        let label = self.coordinator.label_of(TENANT, named).await?;
        let label = label.with_context(|| format!("run {} was deleted", self.name))?;
        self.join(named, Description::decode(&label.description)?).await
    }

    /// Creates a new run, which replaces the one that was found.
    async fn create(&self, found: Option<RunId>) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, state, options, name, .. } = *self;
        // Fails before anything is written, if the source cannot be read.
        drop(self.open(&[state.to_owned()]).await?);
        let results = self.results()?;
        let output = Output::of(&results, state, name).await?.for_mode(options.mode);
        self.source.ensure_apart(state)?;
        self.source.ensure_apart(output.folder())?;
        output.create_folder()?;
        let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
        let connector = Arc::new(self.open(&ours).await?);
        let fingerprint = connector.fingerprint().await?;
        let ranges = connector.initial_ranges(shards_of(options)).await?;
        let source = self.source.clone();
        let description = Description::new(source, &fingerprint, options, results, &ranges);
        let run = RunId::from_raw(random());
        let label = RunLabel { name, description: description.encode()?.into() };
        let may_replace = options.fresh || found.is_some();
        if let Err(refusal) = output.reserve(name, run, may_replace).await {
            // Another process may have just created the same run.
            return if self.is_renamed(found).await? { Ok(None) } else { Err(refusal) };
        }
        let named = coordinator.name_run(TENANT, run, &label, found).await;
        if is_surely_nameless(run, &named) {
            output.unreserve(run).await?;
        }
        let named = named?;
        if named != run {
            // Another process was faster.
            return self.join_other(named).await;
        }
        if let Some(replaced) = found {
            end(coordinator, replaced).await?;
        }
        let created = async {
            output.claim(coordinator, name, run, may_replace).await?;
            self.create_named(run, &description).await
        };
        match (created.await, coordinator.find_run(TENANT, name).await?) {
            (Ok(()), _) => {
                Ok(Some(Begun { name, run, description, connector, output, is_resumed: false }))
            }
            // This process was delayed, and another one restarted the run meanwhile.
            (Err(_), Some(other)) if other != run => self.join_other(other).await,
            (Err(refusal), _) => Err(refusal),
        }
    }

    /// The requested location of the results, if there is one.
    fn requested_results(&self) -> anyhow::Result<Option<Results>> {
        requested_results(self.options)
    }

    /// The location of the results of a new run.
    fn results(&self) -> anyhow::Result<Results> {
        let results = location_of(self.store, self.options, self.state, self.name)?;
        self.source.ensure_without(&results)?;
        results.created()
    }
}

/// Whether a run certainly did not get its name. Otherwise a process may find it by the name, and
/// needs its marker.
const fn is_surely_nameless(run: RunId, named: &Result<RunId, NameRunError>) -> bool {
    match named {
        Ok(named) => named.as_raw() != run.as_raw(),
        Err(NameRunError::LabelTooLarge { .. }) => true,
        Err(NameRunError::RunIdUsed { .. } | NameRunError::BackendError(_)) => false,
    }
}

/// Cancels a run that was replaced.
pub async fn end(coordinator: &Coordinator, replaced: RunId) -> anyhow::Result<()> {
    let op = OpId::from_raw(random());
    match coordinator.cancel_run(TENANT, replaced, op).await {
        Ok(_) => Ok(()),
        // It has ended, or was never created.
        Err(RunTransitionError::RunTerminal(_) | RunTransitionError::RunNotFound(_)) => Ok(()),
        Err(error) => Err(error).context("the replaced run cannot be cancelled"),
    }
}

/// An existing run.
pub struct Found {
    /// Its name.
    pub name: RunName,
    /// Its id.
    pub run: RunId,
    /// Its description.
    pub description: Description,
}

/// Resumes a run, if its source has not changed.
pub async fn resume(
    coordinator: &Coordinator,
    state: &Path,
    found: Found,
) -> anyhow::Result<Begun> {
    let (source, given) = (found.description.source.clone(), found.description.given());
    let open = async |ours: &[PathBuf]| source.open(&given, state, ours).await;
    resume_with(coordinator, state, found, &source, open).await
}

/// Resumes a run, if its source is the same as `source`, which `open` opens.
async fn resume_with(
    coordinator: &Coordinator,
    state: &Path,
    found: Found,
    source: &Source,
    open: impl AsyncFnOnce(&[PathBuf]) -> anyhow::Result<AnyConnector>,
) -> anyhow::Result<Begun> {
    let Found { name, run, description } = found;
    let output = Output::of(&description.results, state, name).await?.for_mode(description.mode);
    let is_begun = match coordinator.get_run(TENANT, run).await {
        Ok(_) => true,
        Err(RunQueryError::RunNotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    output.join(coordinator, name, run, is_begun).await?;
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let connector = Arc::new(open(&ours).await?);
    let fingerprint = connector.fingerprint().await?;
    if fingerprint.identity != description.fingerprint {
        let interface = Interface::of(description.mode);
        anyhow::ensure!(
            *source == description.source,
            "run {name} was started with another source ({}); {} to start it over, or {}",
            description.source.title(),
            interface.start_over(),
            interface.other_name()
        );
        anyhow::bail!(
            "the source of run {name} has changed since it was started; {} to start it over",
            interface.start_over()
        );
    }
    Ok(Begun { name, run, description, connector, output, is_resumed: true })
}

pub(crate) fn derived_name(source: &Source, options: &JobOptions) -> RunName {
    let shown = match source {
        Source::Lines { piped: true, .. } => "pipe".to_owned(),
        Source::Paths { paths, .. } if paths.len() > 1 => {
            source.root().unwrap_or_default().display().to_string()
        }
        source => source.shown(),
    };
    let identity = serde_json::to_vec(source).unwrap_or_default();
    let mode = serde_json::to_vec(&options.mode).unwrap_or_default();
    // What every run has had so far, and what differs from it.
    let mut settings = vec![u8::from(options.at_dispatch) | u8::from(options.shell) << 1];
    settings.extend(options.placeholders.unusual_item().unwrap_or_default());
    let mut parts: Vec<&[u8]> = vec![&identity, &mode, &settings];
    parts.extend(options.command.iter().map(|part| part.as_encoded_bytes()));
    readable_name(&shown, &parts)
}

/// Creates the run from its description. For all processes but the first, it exists already.
pub async fn create(
    coordinator: &Coordinator,
    run: RunId,
    description: &Description,
    lease_seconds: u16,
) -> anyhow::Result<()> {
    if coordinator.get_run(TENANT, run).await.is_ok_and(|it| it.status != RunStatus::Initializing) {
        return Ok(());
    }
    let semantics = if description.at_dispatch {
        CursorSemantics::Dispatched
    } else {
        CursorSemantics::Completed
    };
    let config = RunConfig::try_new(semantics, u64::from(lease_seconds) * 1_000, None)?;
    let ranges = description.ranges()?;
    match create_run(coordinator, TENANT, run, config, &first_shards(&ranges)).await {
        Ok(()) => Ok(()),
        // A process with another lease was faster.
        Err(CreateRunWithShardsError::Create(
            CreateRunError::ConfigMismatch(_) | CreateRunError::RunAlreadyExists(_),
        )) => Ok(()),
        Err(CreateRunWithShardsError::Register(RegisterShardsError::ShardLimitExceeded(full))) => {
            anyhow::bail!("no shards are left for another run: {full}; {HOW_TO_FREE_SHARDS}")
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use shardwright_coordination::{InfraError, ShardLimits};
    use shardwright_engine::TokioEnv;
    use shardwright_engine::keyspace::Keyspace;
    use shardwright_runs::EngineConfig;

    use super::*;
    use crate::output::Replaced;
    use crate::testing::{Bench, RUN};

    #[tokio::test]
    async fn a_run_that_reclaims_its_location_is_not_its_own_predecessor() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let file = begun.output.folder().join("run.json");
        let marker = || -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap()
        };
        // Another run had it meanwhile, and the store was restored to an older state.
        let (own, another) = (marker()["run"].clone(), "0000000000000009");
        let mut replaced = marker();
        replaced["run"] = another.into();
        replaced["predecessors"] = serde_json::json!([own]);
        std::fs::write(&file, replaced.to_string()).unwrap();
        begun.output.claim(&bench.coordinator, begun.name, begun.run, true).await.unwrap();
        assert_eq!(marker()["run"], own);
        assert_eq!(marker()["predecessors"], serde_json::json!([another]));
    }

    #[tokio::test]
    async fn joining_requires_the_marker_even_before_the_run_exists() {
        for has_marker in [true, false] {
            let bench = Bench::new().await;
            let options = bench.options("cat");
            let (run, output) = bench.name_only(&options).await;
            if has_marker {
                output.reserve(options.name.unwrap(), run, false).await.unwrap();
            }
            let begun = bench.begin(&options).await.unwrap();
            assert_eq!((begun.run == run, begun.is_resumed), (has_marker, has_marker));
            assert_eq!(bench.coordinator.get_run(TENANT, run).await.is_ok(), has_marker);
        }
    }

    #[test]
    fn a_marker_stays_while_its_run_may_have_the_name() {
        let unknown = InfraError::Unknown { operation: "name_run", message: "lost".into() };
        for (named, expected) in [
            (Ok(RUN), false),
            (Ok(RunId::from_raw(8)), true),
            (Err(NameRunError::LabelTooLarge { length: 1 }), true),
            (Err(NameRunError::RunIdUsed { run: RUN }), false),
            (Err(unknown.into()), false),
        ] {
            assert_eq!(is_surely_nameless(RUN, &named), expected, "{named:?}");
        }
    }

    #[tokio::test]
    async fn a_delayed_creator_does_not_take_the_location_back() {
        let bench = Bench::new().await;
        let options = bench.options("cat");
        let (delayed, output) = bench.name_only(&options).await;
        let name = options.name.unwrap();
        output.reserve(name, delayed, false).await.unwrap();
        let fresh = bench.begin(&bench.fresh("cat")).await.unwrap();
        let claimed = output.claim(&bench.coordinator, name, delayed, true).await;
        assert!(claimed.is_err_and(|error| error.is::<Replaced>()));
        output.ensure_current(fresh.run).await.unwrap();
    }

    #[tokio::test]
    async fn a_scan_that_is_over_is_restarted_even_with_parked_items() {
        let bench = Bench::new().await;
        let options = bench.scan_options();
        let first = bench.begin(&options).await.unwrap();
        let again = bench.begin(&options).await.unwrap();
        assert_eq!((again.run, again.is_resumed), (first.run, true));
        let replaced = first.run;
        bench.park(first).await;
        let restarted = bench.begin(&options).await.unwrap();
        assert!(restarted.run != replaced && !restarted.is_resumed);
        // A scan does not replace a run of a command.
        let command = bench.fresh("cat");
        assert!(bench.begin(&command).await.is_ok());
        assert!(bench.begin(&options).await.is_err());
    }

    #[tokio::test]
    async fn the_error_at_the_shard_limit_names_the_remedy() {
        let bench = Bench::new().await;
        let env = TokioEnv::current().unwrap();
        let store = bench.store.connect(None).await.unwrap();
        let limits = ShardLimits { per_tenant: 0, total: 0 };
        let config = EngineConfig { limits, ..EngineConfig::on_one_machine() };
        let coordinator = Coordinator::open(store, env, Keyspace::default(), config).await.unwrap();
        let options = bench.options("cat");
        let begun = begin(&bench.store, &coordinator, &bench.state, &options).await;
        let refusal = begun.err().unwrap().to_string();
        assert!(refusal.contains("limit of 0; 0 exist"), "{refusal}");
        assert!(refusal.contains("shardwright gc --keep-days"), "{refusal}");
        // Without the limit, the same command creates the run.
        assert!(bench.begin(&options).await.is_ok());
    }

    #[tokio::test]
    async fn a_run_that_was_named_and_never_created_is_replaced() {
        let bench = Bench::new().await;
        bench.name_only(&bench.options("cat")).await;
        let begun = bench.begin(&bench.options("wc")).await.unwrap();
        assert!(begun.run != RUN && !begun.is_resumed);
        let refusal = bench.begin(&bench.options("cat")).await.err().unwrap();
        assert!(refusal.to_string().contains("another command"), "{refusal}");
    }
}
