//! Working on a run until there is nothing left to do, and telling what came of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::{OpId, RunId};
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunStatus};
use shardwright_engine::TokioEnv;
use shardwright_worker::{Ending, Observer, RetryPolicy, Stop, Worker, WorkerError, WorkerOptions};

use crate::arguments::WorkArguments;
use crate::begin::Begun;
use crate::commands::TENANT;
use crate::commands::runs::word;
use crate::description::Description;
use crate::exit::Exit;
use crate::failures::FailureWatch;
use crate::job::Command;
use crate::output::Output;
use crate::progress;
use crate::receipt::Receipt;
use crate::say::note;
use crate::scan::Scan;
use crate::signals::stop_on_signals;
use crate::store::Coordinator;
use crate::view::View;

const DONE_BEFORE: &str = "was done before; say --fresh to do it again";

/// Works on a run that was found or made.
pub(crate) async fn work(
    coordinator: &Coordinator,
    json: bool,
    begun: Begun,
    arguments: &WorkArguments,
    scan: Option<&Scan<'_>>,
) -> anyhow::Result<Exit> {
    let Begun { name, run, description, connector, output, is_resumed } = begun;
    let record = coordinator.get_run(TENANT, run).await?;
    let view = View::new(json, name, description.source.clone());
    match record.status {
        RunStatus::Done => {
            let receipt = conclude(coordinator, name, run, &description, &output).await?;
            // A scan that was done before is not joined; this one was done between two looks.
            let how = scan.map_or(DONE_BEFORE, |_| "is done");
            let end = End { view: &view, description: &description, output: &output, scan };
            return end.tell(&receipt, Exit::Done, how).await;
        }
        RunStatus::Failed | RunStatus::Cancelled => {
            let status = word(record.status, record.paused);
            anyhow::bail!("the run {name} is {status}; say --fresh to begin a new one");
        }
        RunStatus::Initializing | RunStatus::Active => {}
    }
    let lease = Duration::from_millis(record.config.lease_duration_ms.get());
    let command = match scan {
        Some(scan) => scan.command(&connector)?,
        None => Command::new(run, &description, &output, arguments.in_flight(), lease).await?,
    };
    let stop = Stop::default();
    stop_on_signals(stop.clone())?;
    let failures = FailureWatch::new(arguments.max_failures, stop.clone(), view.observer());
    failures.follow(coordinator, run);
    view.begin(is_resumed, &description, arguments.workers());
    let connector = Arc::new(connector);
    progress::follow(&view, coordinator, run, &description, &connector)?;
    let options = options(arguments, &command);
    let ending = Worker::builder(TENANT, run)
        .backend(coordinator.clone())
        .env(TokioEnv::current().context("there is no runtime")?)
        .connector(connector)
        .job(command)
        .sink(output.sink())
        .options(options)
        .stop(stop)
        .observer(Arc::clone(&failures) as Arc<dyn Observer>)
        .run()
        .await;
    view.end();
    let was_tried = matches!(ending, Ok(Ending::Done | Ending::Parked { .. }));
    if failures.is_over(coordinator, run, was_tried).await? {
        return Ok(stopped_by_failures(coordinator, name, run).await);
    }
    let (exit, how) = match ended(name, ending)? {
        Ending::Done => (Exit::Done, "is done"),
        Ending::Parked { .. } => (Exit::Parked, "is done but for what is parked"),
        Ending::Stopped => {
            coordinator.close().await?;
            view.interrupted();
            return Ok(Exit::Interrupted);
        }
    };
    let receipt = conclude(coordinator, name, run, &description, &output).await?;
    coordinator.close().await?;
    let end = End { view: &view, description: &description, output: &output, scan };
    end.tell(&receipt, exit, how).await
}

/// Pauses a run in which too much has failed, so that nobody else goes on with it either until
/// somebody has looked.
async fn stopped_by_failures(coordinator: &Coordinator, name: RunName, run: RunId) -> Exit {
    let _paused = coordinator.pause_run(TENANT, run, OpId::from_raw(fastrand::u64(..))).await;
    note!("stopped: too many items failed; `shardwright parked {name}` shows why, and");
    note!("`shardwright resume {name}` lets the same command go on");
    Exit::TooManyFailures
}

/// How the work ended, unless that is an error.
fn ended(name: RunName, ending: Result<Ending, WorkerError>) -> anyhow::Result<Ending> {
    match ending {
        Ok(ending) => Ok(ending),
        Err(WorkerError::RunEnded { status }) => {
            anyhow::bail!("the run {name} was ended by somebody: it is {}", word(status, false))
        }
        Err(error) => Err(error.into()),
    }
}

/// What is needed to tell how a run ended.
struct End<'a> {
    view: &'a View,
    description: &'a Description,
    output: &'a Output,
    scan: Option<&'a Scan<'a>>,
}

impl End<'_> {
    async fn tell(&self, receipt: &Receipt, exit: Exit, how: &str) -> anyhow::Result<Exit> {
        match self.scan {
            Some(scan) => scan.finish(self.view, self.description, self.output, receipt, how).await,
            None => {
                self.view.finished(receipt, how);
                Ok(exit)
            }
        }
    }
}

fn options(arguments: &WorkArguments, command: &Command) -> WorkerOptions {
    let retry = RetryPolicy { retries: arguments.retries, ..RetryPolicy::default() };
    WorkerOptions {
        slots: arguments.workers(),
        in_flight: command.in_flight(arguments.in_flight()),
        retry,
        crash_limit: arguments.max_crashes(),
        ..WorkerOptions::default()
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
    output.write_receipt(serde_json::to_vec_pretty(&receipt)?).await?;
    Ok(receipt)
}
