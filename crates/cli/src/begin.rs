//! Finding the run that a command means, or making it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use shardwright_contracts::{CursorSemantics, RunId};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, CreateRunError, CreateRunWithShardsError, Job,
    RunConfig, RunName, RunQueryError, RunStatus,
};
use shardwright_worker::connector::Connector;
use shardwright_worker::create_run;

use crate::arguments::RunArguments;
use crate::commands::TENANT;
use crate::description::{Description, Results};
use crate::naming;
use crate::output::{Output, default_folder};
use crate::source::{AnyConnector, Source};
use crate::store::{Coordinator, StoreAddress};

/// Shards per worker at first. More come by splitting.
const SHARDS_PER_WORKER: usize = 4;
const MOST_SHARDS: usize = 256;

/// A run that was found or made.
pub(crate) struct Begun {
    pub(crate) name: RunName,
    pub(crate) run: RunId,
    pub(crate) description: Description,
    pub(crate) connector: AnyConnector,
    pub(crate) output: Output,
    pub(crate) is_resumed: bool,
}

/// The folder for what belongs to this machine.
pub(crate) fn state_folder(store: &StoreAddress) -> anyhow::Result<PathBuf> {
    let folder = store.state_folder();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(std::fs::canonicalize(folder)?)
}

/// Finds the run of this source and command, or makes it.
pub(crate) async fn begin(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    arguments: &RunArguments,
) -> anyhow::Result<Begun> {
    let source = Source::from_arguments(arguments, state).await?;
    let name = arguments.make.name.unwrap_or_else(|| derived_name(&source, arguments));
    let found = coordinator.find_run(TENANT, name).await?;
    let job = match found {
        Some(run) => coordinator.job_of(TENANT, run).await?.map(|job| (run, job)),
        None => None,
    };
    if let Some((run, job)) = job
        && !arguments.make.fresh
        && !is_outdated(coordinator, arguments, run).await?
    {
        let description = Description::decode(&job.description)?;
        let joined = join(coordinator, state, arguments, name, run, description).await;
        if joined.is_err() && coordinator.find_run(TENANT, name).await? != Some(run) {
            // Somebody has begun it anew just now.
            return Box::pin(begin(store, coordinator, state, arguments)).await;
        }
        return joined;
    }
    let results = place_results(store, state, arguments, name, &source)?;
    let output = Output::of(&results, state, name).await?;
    output.make_folder()?;
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let given = arguments.source.as_ref().map(PathBuf::from);
    let connector = source.open(given.as_deref(), state, &ours).await?;
    let fingerprint = connector.fingerprint().await?;
    let by_workers = || (arguments.work.workers() * SHARDS_PER_WORKER).min(MOST_SHARDS);
    let wanted = arguments.make.shards.map_or_else(by_workers, usize::from);
    let ranges = connector.initial_ranges(wanted).await?;
    let description = Description::new(source, &fingerprint, arguments, results, &ranges);
    let run = RunId::from_raw(fastrand::u64(1..));
    let job = Job { name, description: description.encode()?.into() };
    let named = coordinator.name_run(TENANT, run, &job, found).await?;
    if named != run {
        // Somebody else was faster, so theirs it is.
        let job = coordinator.job_of(TENANT, named).await?.context("the run is gone again")?;
        let description = Description::decode(&job.description)?;
        return join(coordinator, state, arguments, name, named, description).await;
    }
    output.claim(name, run, arguments.make.fresh || found.is_some()).await?;
    create(coordinator, run, &description, arguments).await?;
    Ok(Begun { name, run, description, connector, output, is_resumed: false })
}

/// Whether a run says nothing any more of what was asked: files change, and whoever looks for
/// secrets again wants to know what is in them now.
async fn is_outdated(
    coordinator: &Coordinator,
    arguments: &RunArguments,
    run: RunId,
) -> anyhow::Result<bool> {
    if arguments.scan.is_none() {
        return Ok(false);
    }
    match coordinator.get_run(TENANT, run).await {
        Ok(record) => Ok(!matches!(record.status, RunStatus::Initializing | RunStatus::Active)),
        // It was named and not begun.
        Err(RunQueryError::RunNotFound(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Goes on with a run, if it is the one that was asked for.
async fn join(
    coordinator: &Coordinator,
    state: &Path,
    arguments: &RunArguments,
    name: RunName,
    run: RunId,
    description: Description,
) -> anyhow::Result<Begun> {
    anyhow::ensure!(
        description.command() == arguments.command && description.mode == arguments.mode(),
        "the run {name} was begun with another command; say --fresh, or another --run NAME"
    );
    let given = arguments.source.as_ref().map(PathBuf::from);
    let begun = resume(coordinator, state, given, name, run, description).await?;
    create(coordinator, run, &begun.description, arguments).await?;
    Ok(begun)
}

/// Goes on with a run, if its source is still the same.
pub(crate) async fn resume(
    coordinator: &Coordinator,
    state: &Path,
    given: Option<PathBuf>,
    name: RunName,
    run: RunId,
    description: Description,
) -> anyhow::Result<Begun> {
    let output = Output::of(&description.results, state, name).await?;
    match description.results {
        Results::Folder { .. } | Results::Objects { .. } => {
            match coordinator.get_run(TENANT, run).await {
                Ok(_) => output.join(run).await?,
                // It was named and not begun.
                Err(RunQueryError::RunNotFound(_)) => output.claim(name, run, true).await?,
                Err(error) => return Err(error.into()),
            }
        }
        Results::Local => output.claim(name, run, true).await?,
    }
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let connector = description.source.open(given.as_deref(), state, &ours).await?;
    let fingerprint = connector.fingerprint().await?;
    anyhow::ensure!(
        fingerprint.identity == description.fingerprint,
        "the source of the run {name} has changed since it was begun; say --fresh to begin again"
    );
    Ok(Begun { name, run, description, connector, output, is_resumed: true })
}

fn derived_name(source: &Source, arguments: &RunArguments) -> RunName {
    let shown = match source {
        Source::Lines { piped: true, .. } => "pipe".to_owned(),
        source => source.shown(),
    };
    let identity = serde_json::to_vec(source).unwrap_or_default();
    let mode = serde_json::to_vec(&arguments.mode()).unwrap_or_default();
    let dispatch = [u8::from(arguments.at_dispatch)];
    let mut parts: Vec<&[u8]> = vec![&identity, &mode, &dispatch];
    parts.extend(arguments.command.iter().map(|part| part.as_encoded_bytes()));
    naming::derive(&shown, &parts)
}

fn place_results(
    store: &StoreAddress,
    state: &Path,
    arguments: &RunArguments,
    name: RunName,
    source: &Source,
) -> anyhow::Result<Results> {
    if arguments.make.out_local {
        return Ok(Results::Local);
    }
    let address = arguments.make.out.as_ref().and_then(|out| out.to_str());
    if let Some(url) = address.filter(|address| address.contains("://")) {
        anyhow::ensure!(
            !source.holds(url),
            "{url} is a part of the source; results would be items"
        );
        return Ok(Results::Objects { url: url.to_owned() });
    }
    let folder = match &arguments.make.out {
        Some(folder) => PathBuf::from(folder),
        None if store.is_shared() => anyhow::bail!(
            "on a shared store say where results go: --out FOLDER or URL, which every worker must \
             reach, or --out-local to leave them on each machine"
        ),
        None => default_folder(state, name),
    };
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(Results::Folder { path: std::fs::canonicalize(folder)? })
}

/// Makes the run as it was written down. For all but the first it is there already.
async fn create(
    coordinator: &Coordinator,
    run: RunId,
    description: &Description,
    arguments: &RunArguments,
) -> anyhow::Result<()> {
    if coordinator.get_run(TENANT, run).await.is_ok_and(|it| it.status != RunStatus::Initializing) {
        return Ok(());
    }
    let semantics = if arguments.at_dispatch {
        CursorSemantics::Dispatched
    } else {
        CursorSemantics::Completed
    };
    let config = RunConfig::try_new(semantics, u64::from(arguments.make.lease) * 1_000, None)?;
    let ranges = description.ranges()?;
    match create_run(coordinator, TENANT, run, config, &ranges).await {
        Ok(()) => Ok(()),
        // Somebody with another idea of how long a lease lasts was faster.
        Err(CreateRunWithShardsError::Create(
            CreateRunError::ConfigMismatch(_) | CreateRunError::RunAlreadyExists(_),
        )) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
