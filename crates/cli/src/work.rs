//! Works on a run until nothing is left to do, and reports the outcome.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::{OpId, RunId};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunStatus, RunTransitionError};
use shardwright_engine::{TokioEnv, random};
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{Begun, HOW_TO_FREE_SHARDS};
use shardwright_jobs::command::Command;
use shardwright_jobs::conclude::{Conclusion, is_settled};
use shardwright_jobs::description::Description;
use shardwright_jobs::journal::ProcessJournal;
use shardwright_jobs::output::Output;
use shardwright_jobs::source::JournaledSource;
use shardwright_worker::{Observer, RunOutcome, StopSignal, Worker, WorkerError, WorkerOptions};

use crate::arguments::run::WorkArguments;
use crate::commands::runs::word;
use crate::commands::transition::ensure_not_paused;
use crate::commands::unpark::{shards, unpark_all};
use crate::console::errln;
use crate::exit::{Exit, stop_on_signals};
use crate::failures::FailureWatch;
use crate::progress::{self, Progress};
use crate::scan::Scan;
use crate::store::Coordinator;
use crate::view::{How, View, Watched};

/// The part of a run to work on.
#[derive(Clone, Copy)]
pub(crate) enum Task<'a> {
    /// All shards that are not done.
    Rest,
    /// The same, and the parked shards.
    RestAndParked,
    /// All shards of a scan that are not done.
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

/// Works on a run that was found or created.
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
    let slots = arguments.workers();
    let view = View::new(json, arguments.view, name, description.source.clone(), slots);
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
        // A scan never joins a run that is done: this one was completed since it was found.
        RunStatus::Done => return context.end(scan.map_or(How::DoneBefore, |_| How::Done)).await,
        RunStatus::Failed | RunStatus::Cancelled => {
            let status = word(record.status, record.paused);
            anyhow::bail!("run {name} is {status}; use --fresh to start a new run");
        }
        RunStatus::Initializing | RunStatus::Active => ensure_not_paused(name, &record)?,
    }
    let lease = Duration::from_millis(record.config.lease_duration_ms.get());
    let command = match scan {
        Some(scan) => scan.command(&connector)?,
        None => Command::new(run, &description, &output, arguments.in_flight(), lease).await?,
    };
    // This comes after the checks above, so that a refused retry unparks nothing.
    if matches!(task, Task::RestAndParked) {
        let unparked = unpark_all(coordinator, run).await?;
        if !json && !arguments.view.quiet {
            errln!("unparked {}", shards(unparked));
        }
    }
    stop_on_signals(stop.clone())?;
    failures.follow(coordinator, run);
    view.begin(is_resumed, &description);
    let progress = Progress::new(coordinator, run, &connector);
    progress::follow(&view, &progress, &description)?;
    let options = options(arguments, &command);
    let source = JournaledSource { source: connector, journal, output: output.clone(), run };
    let outcome = Worker::builder(TENANT, run)
        .backend(coordinator.clone())
        .env(TokioEnv::current().context("no tokio runtime")?)
        .connector(source)
        .handler(Watched { handler: command, monitor: Arc::clone(view.monitor()) })
        .sink(output.sink())
        .options(options)
        .stop(stop)
        .observer(Arc::clone(&failures) as Arc<dyn Observer>)
        .run()
        .await;
    view.end();
    context.ended(outcome, &progress).await
}

/// The parts that a report about a run needs.
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
        outcome: Result<RunOutcome, WorkerError>,
        progress: &Progress,
    ) -> anyhow::Result<Exit> {
        let Self { name, .. } = self;
        // Journals are always published. `end` does it where a receipt is written. Elsewhere a
        // failure is only printed, so that it hides no other error.
        if !matches!(outcome, Ok(RunOutcome::Done | RunOutcome::Parked { .. }))
            && let Err(error) = self.output.publish_journals(self.run).await
        {
            errln!("cannot publish the journal of this process yet: {error:#}");
        }
        match outcome {
            Ok(RunOutcome::Done | RunOutcome::Parked { .. }) => self.end(How::Done).await,
            Ok(RunOutcome::Stopped) => {
                if self.failures.is_over(self.coordinator, self.run, false).await? {
                    return self.stop_for_failures().await;
                }
                self.coordinator.close().await?;
                progress.update(self.view).await;
                self.view.interrupted();
                Ok(Exit::Interrupted)
            }
            Err(WorkerError::RunEnded { status }) => {
                anyhow::bail!("another process ended run {name}: it is {}", word(status, false))
            }
            Err(error) => Err(with_advice(error)),
        }
    }

    /// Writes and reports the results and the receipt, after all items were tried.
    async fn end(&self, how: How) -> anyhow::Result<Exit> {
        let Self { coordinator, name, run, view, description, output, .. } = *self;
        output.publish_journals(run).await?;
        let is_over = self.failures.is_over(coordinator, run, true).await?;
        let conclusion = Conclusion { coordinator, name, run, description, output };
        let receipt = conclusion.write().await?;
        coordinator.close().await?;
        let exit = match self.scan {
            Some(scan) => scan.finish(view, description, output, &receipt).await?,
            None => {
                view.finished(&receipt, how);
                if receipt.is_whole() { Exit::Done } else { Exit::Parked }
            }
        };
        if !is_over {
            return Ok(exit);
        }
        view.too_many_failures(&if receipt.failed > 0 {
            "their results contain the errors".to_owned()
        } else {
            format!(
                "`shardwright parked {name}` lists the errors, `shardwright retry --parked {name}` \
                 retries the items"
            )
        });
        Ok(Exit::TooManyFailures)
    }

    /// Pauses a run with too many failures, so that other processes stop as well until an operator
    /// resumes it.
    async fn stop_for_failures(&self) -> anyhow::Result<Exit> {
        let Self { coordinator, name, run, view, description, .. } = self;
        // If no shard is left to claim, a pause has no effect.
        if is_settled(&coordinator.inspect_shards(TENANT, *run).await?) {
            return self.end(How::Done).await;
        }
        let op = OpId::from_raw(random());
        match coordinator.pause_run(TENANT, *run, op).await {
            Ok(_) => {}
            // Other processes have completed the run meanwhile.
            Err(RunTransitionError::RunTerminal(ended)) if ended.status == RunStatus::Done => {
                return self.end(How::Done).await;
            }
            Err(error) => {
                return Err(error).context("too many items failed, but the run cannot be paused");
            }
        }
        coordinator.close().await?;
        view.too_many_failures(&how_to_resume(*name, description.at_dispatch));
        Ok(Exit::TooManyFailures)
    }
}

/// A worker's error, with the remedy where one is known.
fn with_advice(error: WorkerError) -> anyhow::Error {
    match &error {
        WorkerError::TooManyParked { reason: SplitInvalid::ShardLimitExceeded(_), .. } => {
            anyhow::anyhow!("{error}; {HOW_TO_FREE_SHARDS}")
        }
        _ => error.into(),
    }
}

/// The remedy for a run that was paused after too many failures. With `--at-dispatch` no item is
/// parked.
fn how_to_resume(name: RunName, at_dispatch: bool) -> String {
    let again = "the same command with a higher --max-failures";
    if at_dispatch {
        return format!(
            "the run is paused. The errors are listed above and will be in the results. To \
             continue, run `shardwright resume {name}` and then {again}"
        );
    }
    format!(
        "the run is paused. `shardwright parked {name}` lists the errors. To continue, run \
         `shardwright resume {name}` and then `shardwright retry --parked {name}`, or {again}"
    )
}

fn options(arguments: &WorkArguments, command: &Command) -> WorkerOptions {
    WorkerOptions {
        slots: arguments.workers(),
        in_flight: command.in_flight(arguments.in_flight()),
        retry: arguments.retry(),
        crash_limit: arguments.max_crashes(),
        ..WorkerOptions::default()
    }
}

#[cfg(test)]
mod tests {
    use shardwright_coordination::{ShardLimitScope, ShardLimitViolation};

    use super::*;
    use crate::arguments::view::ViewArguments;
    use crate::testing::Bench;
    use shardwright_jobs::description::Results;

    #[tokio::test]
    async fn unpublished_journals_hide_no_other_error() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let Begun { name, run, description, connector, .. } = begun;
        let source = description.source.clone();
        let (coordinator, view) =
            (&bench.coordinator, View::new(true, ViewArguments::default(), name, source, 1));
        let progress = Progress::new(coordinator, run, &connector);
        let objects = Results::Objects { url: "memory:///results".into() };
        let output = Output::of(&objects, &bench.state, name).await.unwrap();
        // A file has the path of the journal folder.
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
        let path = folder.display().to_string();
        assert!(format!("{unwritten:#}").contains(&path), "{unwritten:#}");
        let stopped = context.ended(Ok(RunOutcome::Stopped), &progress).await;
        assert_eq!(stopped.unwrap(), Exit::Interrupted);
    }

    #[test]
    fn full_shard_limit_is_reported_with_the_remedy() {
        let scope = ShardLimitScope::Tenant;
        let full = ShardLimitViolation { scope, current: 9, additional: 1, max: 9 };
        for (reason, gc_helps) in [
            (SplitInvalid::ShardLimitExceeded(full), true),
            (SplitInvalid::SpawnLimitExceeded { spawned: 1, additional: 1, max: 1 }, false),
        ] {
            let error = with_advice(WorkerError::TooManyParked { item: "a".to_owned(), reason });
            let has_advice = error.to_string().contains("shardwright gc --keep-days");
            assert_eq!(has_advice, gc_helps, "{error}");
        }
    }
}
