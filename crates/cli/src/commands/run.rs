//! `shardwright run`: the main job.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use shardwright_contracts::{
    CursorSemantics, CursorUpdate, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef,
};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, CreateRunError, CreateRunWithShardsError, Job,
    RunConfig, RunName, RunQueryError, RunStatus,
};
use shardwright_engine::TokioEnv;
use shardwright_worker::connector::{Connector, Item};
use shardwright_worker::job::{Batch, Job as WorkerJob, JobFailure, Outcome};
use shardwright_worker::process::{BatchInput, Guard, ProcessPerBatch, ProcessPerItem, Template};
use shardwright_worker::{Ending, Observer, RetryPolicy, Stop, Worker, WorkerError, WorkerOptions};

use crate::arguments::RunArguments;
use crate::commands::TENANT;
use crate::commands::runs::word;
use crate::description::{Description, Results};
use crate::exit::Exit;
use crate::failures::FailureWatch;
use crate::naming;
use crate::output::{Output, default_folder, write_whole};
use crate::receipt::Receipt;
use crate::say::note;
use crate::signals::stop_on_signals;
use crate::source::{AnyConnector, Source};
use crate::store::{Coordinator, Purpose, StoreAddress};
use crate::view::View;

/// Shards per worker at first. More come by splitting.
const SHARDS_PER_WORKER: usize = 4;
const MOST_SHARDS: usize = 256;

/// A run that was found or made.
struct Begun {
    name: RunName,
    run: RunId,
    description: Description,
    connector: AnyConnector,
    output: Output,
    is_resumed: bool,
}

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RunArguments,
) -> anyhow::Result<Exit> {
    Template::new(&arguments.command)?;
    let state = state_folder(store)?;
    let coordinator = store.open(Purpose::Work).await?;
    let begun = begin(store, &coordinator, &state, arguments).await?;
    let Begun { name, run, description, connector, output, is_resumed } = begun;
    let record = coordinator.get_run(TENANT, run).await?;
    let view = View::new(json, name);
    match record.status {
        RunStatus::Done => {
            let receipt = conclude(&coordinator, name, run, &description, &output).await?;
            view.finished(&receipt, "was done before; say --fresh to do it again");
            return Ok(Exit::Done);
        }
        RunStatus::Failed | RunStatus::Cancelled => {
            let status = word(record.status, record.paused);
            anyhow::bail!("the run {name} is {status}; say --fresh to begin a new one");
        }
        RunStatus::Initializing | RunStatus::Active => {}
    }
    let stop = Stop::default();
    stop_on_signals(stop.clone())?;
    let failures = FailureWatch::new(arguments.max_failures, stop.clone(), view.observer());
    view.begin(is_resumed, &description, workers(arguments));
    let ending = Worker::builder(TENANT, run)
        .backend(coordinator.clone())
        .env(TokioEnv::current().context("there is no runtime")?)
        .connector(connector)
        .job(Command::new(arguments, &output)?)
        .sink(output.sink())
        .options(options(arguments))
        .stop(stop)
        .observer(Arc::clone(&failures) as Arc<dyn Observer>)
        .run()
        .await;
    view.end();
    if failures.is_over() {
        // Nobody else goes on with it either, until somebody has looked.
        let _paused = coordinator.pause_run(TENANT, run, OpId::from_raw(fastrand::u64(..))).await;
        note!("stopped: too many items failed; `shardwright parked {name}` shows why, and");
        note!("`shardwright resume {name}` lets the same command go on");
        return Ok(Exit::TooManyFailures);
    }
    let (exit, how) = match ending {
        Ok(Ending::Done) => (Exit::Done, "is done"),
        Ok(Ending::Parked { .. }) => (Exit::Parked, "is done but for what is parked"),
        Ok(Ending::Stopped) => {
            coordinator.close().await?;
            view.interrupted();
            return Ok(Exit::Interrupted);
        }
        Err(WorkerError::RunEnded { status }) => {
            anyhow::bail!("the run {name} was ended by somebody: it is {}", word(status, false))
        }
        Err(error) => return Err(error.into()),
    };
    let receipt = conclude(&coordinator, name, run, &description, &output).await?;
    coordinator.close().await?;
    view.finished(&receipt, how);
    Ok(exit)
}

fn options(arguments: &RunArguments) -> WorkerOptions {
    let retry = RetryPolicy { retries: arguments.retries, ..RetryPolicy::default() };
    WorkerOptions {
        slots: workers(arguments),
        in_flight: arguments.in_flight.into(),
        retry,
        ..WorkerOptions::default()
    }
}

/// The folder for what belongs to this machine.
fn state_folder(store: &StoreAddress) -> anyhow::Result<PathBuf> {
    let folder = store.state_folder();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(std::fs::canonicalize(folder)?)
}

/// Finds the run of this source and command, or makes it.
async fn begin(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    arguments: &RunArguments,
) -> anyhow::Result<Begun> {
    let source = Source::from_arguments(arguments, state).await?;
    let name = arguments.name.unwrap_or_else(|| derived_name(&source, arguments));
    let found = coordinator.find_run(TENANT, name).await?;
    let job = match found {
        Some(run) => coordinator.job_of(TENANT, run).await?.map(|job| (run, job)),
        None => None,
    };
    if let Some((run, job)) = job
        && !arguments.fresh
    {
        let description = Description::decode(&job.description)?;
        return resume(coordinator, state, arguments, name, run, description).await;
    }
    let results = place_results(store, state, arguments, name)?;
    let output = Output::of(&results, state, name);
    std::fs::create_dir_all(output.folder())
        .with_context(|| format!("{} cannot be made", output.folder().display()))?;
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let connector = source.open(state, &ours).await?;
    let fingerprint = connector.fingerprint().await?;
    let wanted = arguments
        .shards
        .map_or_else(|| (workers(arguments) * SHARDS_PER_WORKER).min(MOST_SHARDS), usize::from);
    let ranges = connector.initial_ranges(wanted).await?;
    let command = &arguments.command;
    let description =
        Description::new(source, &fingerprint, command, arguments.batch, results, &ranges);
    let run = RunId::from_raw(fastrand::u64(1..));
    let job = Job { name, description: description.encode()?.into() };
    let named = coordinator.name_run(TENANT, run, &job, found).await?;
    if named != run {
        // Somebody else was faster, so theirs it is.
        let job = coordinator.job_of(TENANT, named).await?.context("the run is gone again")?;
        let description = Description::decode(&job.description)?;
        return resume(coordinator, state, arguments, name, named, description).await;
    }
    output.claim(name, run, arguments.fresh || found.is_some())?;
    create(coordinator, run, &description, arguments).await?;
    Ok(Begun { name, run, description, connector, output, is_resumed: false })
}

/// Goes on with a run, if its source is still the same.
async fn resume(
    coordinator: &Coordinator,
    state: &Path,
    arguments: &RunArguments,
    name: RunName,
    run: RunId,
    description: Description,
) -> anyhow::Result<Begun> {
    let output = Output::of(&description.results, state, name);
    match description.results {
        Results::Folder { .. } => match coordinator.get_run(TENANT, run).await {
            Ok(_) => output.join(run)?,
            // It was named and not begun.
            Err(RunQueryError::RunNotFound(_)) => output.claim(name, run, true)?,
            Err(error) => return Err(error.into()),
        },
        Results::Local => output.claim(name, run, true)?,
    }
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let connector = description.source.open(state, &ours).await?;
    let fingerprint = connector.fingerprint().await?;
    anyhow::ensure!(
        fingerprint.identity == description.fingerprint,
        "the source of the run {name} has changed since it was begun; say --fresh to begin again"
    );
    anyhow::ensure!(
        description.command() == arguments.command,
        "the run {name} was begun with another command; say --fresh, or another --run NAME"
    );
    create(coordinator, run, &description, arguments).await?;
    Ok(Begun { name, run, description, connector, output, is_resumed: true })
}

fn derived_name(source: &Source, arguments: &RunArguments) -> RunName {
    let shown = match source {
        Source::Lines { piped: true, .. } => "pipe".to_owned(),
        source => source.shown(),
    };
    let identity = serde_json::to_vec(source).unwrap_or_default();
    let batch = arguments.batch.unwrap_or_default().to_le_bytes();
    let dispatch = [u8::from(arguments.at_dispatch)];
    let mut parts: Vec<&[u8]> = vec![&identity, &batch, &dispatch];
    parts.extend(arguments.command.iter().map(|part| part.as_encoded_bytes()));
    naming::derive(&shown, &parts)
}

fn place_results(
    store: &StoreAddress,
    state: &Path,
    arguments: &RunArguments,
    name: RunName,
) -> anyhow::Result<Results> {
    if arguments.out_local {
        return Ok(Results::Local);
    }
    let folder = match &arguments.out {
        Some(folder) => folder.clone(),
        None if store.is_shared() => anyhow::bail!(
            "on a shared store say where results go: --out FOLDER, which every worker must reach, \
             or --out-local to leave them on each machine"
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
    let config = RunConfig::try_new(semantics, u64::from(arguments.lease) * 1_000, None)?;
    let ranges = description.ranges()?;
    let shards: Vec<InitialShardInput<'_>> = ranges
        .iter()
        .zip(0..)
        .map(|(range, id)| InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(&range.start, &range.end, b""),
            cursor: CursorUpdate::initial(),
        })
        .collect();
    let op = OpId::from_raw(1);
    match coordinator.create_run_with_shards(TENANT, run, config, &shards, op).await {
        Ok(_) => Ok(()),
        // Somebody with another idea of how long a lease lasts was faster.
        Err(CreateRunWithShardsError::Create(
            CreateRunError::ConfigMismatch(_) | CreateRunError::RunAlreadyExists(_),
        )) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn workers(arguments: &RunArguments) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    arguments.workers.map_or_else(cores, usize::from)
}

/// What is run, in whichever way was chosen.
enum Command {
    Item(ProcessPerItem),
    Batch(ProcessPerBatch),
}

impl Command {
    fn new(arguments: &RunArguments, output: &Output) -> anyhow::Result<Self> {
        let template = Template::new(&arguments.command)?;
        let (guard, spill) = (Arc::new(Guard::start()?), output.spill());
        Ok(match arguments.batch {
            Some(size) => {
                let input = if arguments.null { BatchInput::Nul } else { BatchInput::Lines };
                let size = usize::try_from(size)?;
                Self::Batch(ProcessPerBatch::new(template, guard, spill, size, input))
            }
            None => Self::Item(ProcessPerItem::new(template, guard, spill)),
        })
    }
}

impl WorkerJob for Command {
    fn batch_size(&self) -> usize {
        match self {
            Self::Item(job) => job.batch_size(),
            Self::Batch(job) => job.batch_size(),
        }
    }

    fn failure_record(&self, item: &Item, failure: &JobFailure) -> Vec<u8> {
        match self {
            Self::Item(job) => job.failure_record(item, failure),
            Self::Batch(job) => job.failure_record(item, failure),
        }
    }

    async fn process(&self, batch: Batch<'_>) -> Vec<Outcome> {
        match self {
            Self::Item(job) => job.process(batch).await,
            Self::Batch(job) => job.process(batch).await,
        }
    }
}

/// Writes the result file and the receipt.
async fn conclude(
    coordinator: &Coordinator,
    name: RunName,
    run: RunId,
    description: &Description,
    output: &Output,
) -> anyhow::Result<Receipt> {
    let record = coordinator.get_run(TENANT, run).await?;
    let shards = coordinator.inspect_shards(TENANT, run).await?;
    let built = output.build(run, &shards).await?;
    let receipt = Receipt::new(name, &record, description, &shards, &built)?;
    write_whole(&output.receipt(), &serde_json::to_vec_pretty(&receipt)?)?;
    Ok(receipt)
}
