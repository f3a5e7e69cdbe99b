//! Working on a run until there is nothing left to do, and telling what came of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::{OpId, RunId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunStatus, RunTransitionError};
use shardwright_engine::TokioEnv;
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{Begun, HOW_TO_MAKE_ROOM};
use shardwright_jobs::command::Command;
use shardwright_jobs::conclude::{Conclusion, is_settled};
use shardwright_jobs::description::Description;
use shardwright_jobs::journal::ProcessJournal;
use shardwright_jobs::output::Output;
use shardwright_jobs::source::JournaledSource;
use shardwright_worker::{
    Observer, RetryPolicy, RunOutcome, StopSignal, Worker, WorkerError, WorkerOptions,
};

use crate::arguments::WorkArguments;
use crate::commands::runs::word;
use crate::commands::transition::ensure_not_paused;
use crate::commands::unpark::unpark_all;
use crate::exit::{Exit, stop_on_signals};
use crate::failures::FailureWatch;
use crate::progress::{self, Progress};
use crate::say::note;
use crate::scan::Scan;
use crate::store::Coordinator;
use crate::view::View;

const DONE_BEFORE: &str = "was done before; say --fresh to do it again";

/// What is to be done of a run.
#[derive(Clone, Copy)]
pub(crate) enum Task<'a> {
    /// What is left of it.
    Rest,
    /// The same, and what was set aside.
    RestAndParked,
    /// What is left of a scan.
    Scan(&'a Scan<'a>),
}

impl<'a> Task<'a> {
    const fn scan(self) -> Option<&'a Scan<'a>> {
        match self {
            Self::Scan(scan) => Some(scan),
            Self::Rest | Self::RestAndParked => None,
        }
    }
}

/// Works on a run that was found or made.
pub(crate) async fn work(
    coordinator: &Coordinator,
    json: bool,
    begun: Begun,
    arguments: &WorkArguments,
    task: Task<'_>,
) -> anyhow::Result<Exit> {
    let Begun { name, run, description, connector, output, is_resumed } = begun;
    let scan = task.scan();
    let record = coordinator.get_run(TENANT, run).await?;
    let view = View::new(json, name, description.source.clone());
    let (stop, journal) =
        (StopSignal::default(), ProcessJournal::new(output.journal_folder(run), view.observer()));
    let observer = Arc::clone(&journal) as Arc<dyn Observer>;
    let failures = FailureWatch::new(arguments.max_failures, stop.clone(), observer);
    let context = WorkContext {
        coordinator,
        name,
        run,
        view: &view,
        description: &description,
        output: &output,
        scan,
        failures: &failures,
    };
    match record.status {
        // A scan that was done before is not joined; this one was done between two looks.
        RunStatus::Done => return context.end(scan.map_or(DONE_BEFORE, |_| "is done")).await,
        RunStatus::Failed | RunStatus::Cancelled => {
            let status = word(record.status, record.paused);
            anyhow::bail!("the run {name} is {status}; say --fresh to begin a new one");
        }
        RunStatus::Initializing | RunStatus::Active => ensure_not_paused(name, &record)?,
    }
    let lease = Duration::from_millis(record.config.lease_duration_ms.get());
    let command = match scan {
        Some(scan) => scan.command(&connector)?,
        None => Command::new(run, &description, &output, arguments.in_flight(), lease).await?,
    };
    // Whatever could not be tried again stays set aside.
    if matches!(task, Task::RestAndParked) {
        let unparked = unpark_all(coordinator, run).await?;
        if !json {
            note!("{unparked} unparked");
        }
    }
    stop_on_signals(stop.clone())?;
    failures.follow(coordinator, run);
    view.begin(is_resumed, &description, arguments.workers());
    let progress = Progress::new(coordinator, run, &connector);
    progress::follow(&view, &progress, &description)?;
    let options = options(arguments, &command);
    let source = JournaledSource { source: connector, journal, output: output.clone(), run };
    let ending = Worker::builder(TENANT, run)
        .backend(coordinator.clone())
        .env(TokioEnv::current().context("there is no runtime")?)
        .connector(source)
        .handler(command)
        .sink(output.sink())
        .options(options)
        .stop(stop)
        .observer(Arc::clone(&failures) as Arc<dyn Observer>)
        .run()
        .await;
    view.end();
    context.ended(ending, &progress).await
}

/// What is needed to report how a run ended.
struct WorkContext<'a> {
    coordinator: &'a Coordinator,
    name: RunName,
    run: RunId,
    view: &'a View,
    description: &'a Description,
    output: &'a Output,
    scan: Option<&'a Scan<'a>>,
    failures: &'a FailureWatch,
}

impl WorkContext<'_> {
    /// Reports how the work ended.
    async fn ended(
        &self,
        ending: Result<RunOutcome, WorkerError>,
        progress: &Progress,
    ) -> anyhow::Result<Exit> {
        let Self { name, .. } = self;
        // Publish the journals in any case. Where a receipt is written, that is part of it;
        // elsewhere a failure to publish hides no other error.
        if !matches!(ending, Ok(RunOutcome::Done | RunOutcome::Parked { .. }))
            && let Err(error) = self.output.publish_journals(self.run).await
        {
            note!("the journal of this process is not published yet: {error:#}");
        }
        match ending {
            Ok(RunOutcome::Done) => self.end("is done").await,
            Ok(RunOutcome::Parked { .. }) => self.end("is done but for what is parked").await,
            Ok(RunOutcome::Stopped) => {
                if self.failures.is_over(self.coordinator, self.run, false).await? {
                    return self.stop_for_failures().await;
                }
                self.coordinator.close().await?;
                progress.look(self.view).await;
                self.view.interrupted();
                Ok(Exit::Interrupted)
            }
            Err(WorkerError::RunEnded { status }) => {
                anyhow::bail!("the run {name} was ended by somebody: it is {}", word(status, false))
            }
            Err(error) => Err(advised(error)),
        }
    }

    /// Writes and reports results and receipt of a run in which all items were tried.
    async fn end(&self, how: &str) -> anyhow::Result<Exit> {
        let Self { coordinator, name, run, view, description, output, .. } = *self;
        output.publish_journals(run).await?;
        let is_over = self.failures.is_over(coordinator, run, true).await?;
        let conclusion = Conclusion { coordinator, name, run, description, output };
        let receipt = conclusion.write().await?;
        coordinator.close().await?;
        let exit = match self.scan {
            Some(scan) => scan.finish(view, description, output, &receipt, how).await?,
            None => {
                view.finished(&receipt, how);
                if receipt.is_whole() { Exit::Done } else { Exit::Parked }
            }
        };
        if !is_over {
            return Ok(exit);
        }
        view.failed_too_often(&if receipt.failed > 0 {
            "their results say why".to_owned()
        } else {
            format!(
                "`shardwright parked {name}` shows why, and `shardwright retry --parked {name}` \
                 tries them again"
            )
        });
        Ok(Exit::TooManyFailures)
    }

    /// Pauses a run in which too much has failed, so that nobody else goes on with it either until
    /// somebody has looked.
    async fn stop_for_failures(&self) -> anyhow::Result<Exit> {
        let Self { coordinator, name, run, view, description, .. } = self;
        // There may be nothing left that a pause would keep anybody from.
        if is_settled(&coordinator.inspect_shards(TENANT, *run).await?) {
            return self.end("is done but for what is parked").await;
        }
        let op = OpId::from_raw(fastrand::u64(..));
        match coordinator.pause_run(TENANT, *run, op).await {
            Ok(_) => {}
            // Others were through with it before.
            Err(RunTransitionError::RunTerminal(ended)) if ended.status == RunStatus::Done => {
                return self.end("is done").await;
            }
            Err(error) => {
                return Err(error).context("too many items failed, and the run cannot be paused");
            }
        }
        coordinator.close().await?;
        view.failed_too_often(&how_to_go_on(*name, description.at_dispatch));
        Ok(Exit::TooManyFailures)
    }
}

/// What a worker gave up for, with what helps, if that is known.
fn advised(error: WorkerError) -> anyhow::Error {
    match &error {
        WorkerError::TooManyParked { reason: SplitInvalid::ShardLimitExceeded(_), .. } => {
            anyhow::anyhow!("{error}; {HOW_TO_MAKE_ROOM}")
        }
        _ => error.into(),
    }
}

/// What helps when a run is paused because too much has failed in it. Where items count when they
/// are handed out, nothing is parked.
fn how_to_go_on(name: RunName, at_dispatch: bool) -> String {
    let again = "the same command with a higher --max-failures";
    if at_dispatch {
        return format!(
            "the run is paused. What failed was told, and will be in the results; to go on, say \
             `shardwright resume {name}` and then {again}"
        );
    }
    format!(
        "the run is paused. `shardwright parked {name}` shows why; to go on, say `shardwright \
         resume {name}` and then `shardwright retry --parked {name}`, or {again}"
    )
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

#[cfg(test)]
mod tests {
    use shardwright_coordination::{ShardLimitScope, ShardLimitViolation};

    use super::*;
    use crate::testing::Bench;
    use shardwright_jobs::description::Results;

    #[tokio::test]
    async fn journals_that_cannot_be_published_hide_no_other_error() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let Begun { name, run, description, connector, .. } = begun;
        let (coordinator, view) =
            (&bench.coordinator, View::new(true, name, description.source.clone()));
        let progress = Progress::new(coordinator, run, &connector);
        let objects = Results::Objects { url: "memory:///results".to_owned() };
        let output = Output::of(&objects, &bench.state, name).await.unwrap();
        // A file is in the way of the journals.
        let folder = output.journal_folder(run);
        std::fs::create_dir_all(folder.parent().unwrap()).unwrap();
        std::fs::write(&folder, "").unwrap();
        let failures = FailureWatch::new(None, StopSignal::default(), view.observer());
        let context = WorkContext {
            coordinator,
            name,
            run,
            view: &view,
            description: &description,
            output: &output,
            scan: None,
            failures: &failures,
        };
        let died = context.ended(Err(WorkerError::SlotDied), &progress).await.unwrap_err();
        assert!(matches!(died.downcast_ref(), Some(WorkerError::SlotDied)), "{died:#}");
        let unwritten = context.ended(Ok(RunOutcome::Done), &progress).await.unwrap_err();
        let place = folder.display().to_string();
        assert!(format!("{unwritten:#}").contains(&place), "{unwritten:#}");
        let stopped = context.ended(Ok(RunOutcome::Stopped), &progress).await;
        assert_eq!(stopped.unwrap(), Exit::Interrupted);
    }

    #[test]
    fn where_nothing_more_can_be_set_aside_it_is_said_how_to_make_room() {
        let full = ShardLimitViolation { scope: ShardLimitScope::Tenant, additional: 1, max: 9 };
        for (reason, is_room) in [
            (SplitInvalid::ShardLimitExceeded(full), true),
            (SplitInvalid::SpawnLimitExceeded { spawned: 1, additional: 1, max: 1 }, false),
        ] {
            let told = advised(WorkerError::TooManyParked { item: "a".to_owned(), reason });
            assert_eq!(told.to_string().contains("shardwright gc --keep-days"), is_room, "{told}");
        }
    }
}
