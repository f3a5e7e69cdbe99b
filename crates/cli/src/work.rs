//! Working on a run until there is nothing left to do, and telling what came of it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::{OpId, RunId};
use shardwright_coordination::{
    AsyncRunManagement as _, RunName, RunStatus, RunTransitionError, ShardRecord, ShardStatus,
};
use shardwright_engine::TokioEnv;
use shardwright_worker::{Ending, Observer, RetryPolicy, Stop, Worker, WorkerError, WorkerOptions};

use crate::arguments::WorkArguments;
use crate::begin::Begun;
use crate::books::{Books, Tally};
use crate::commands::TENANT;
use crate::commands::runs::word;
use crate::commands::transition::ensure_not_paused;
use crate::description::Description;
use crate::exit::Exit;
use crate::failures::FailureWatch;
use crate::job::Command;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::receipt::Receipt;
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
    let (stop, books) = (Stop::default(), Books::new(output.books_folder(run), view.observer()));
    let failures = FailureWatch::new(arguments.max_failures, stop.clone(), books);
    let session = Session {
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
        RunStatus::Done => {
            output.hand_in_books(run).await?;
            return session.end(scan.map_or(DONE_BEFORE, |_| "is done")).await;
        }
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
    stop_on_signals(stop.clone())?;
    failures.follow(coordinator, run);
    view.begin(is_resumed, &description, arguments.workers());
    let connector = Arc::new(connector);
    let progress = Progress::new(coordinator, run, &connector);
    progress::follow(&view, &progress, &description)?;
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
    session.ended(ending, &progress).await
}

/// What is needed to tell how a run ended.
struct Session<'a> {
    coordinator: &'a Coordinator,
    name: RunName,
    run: RunId,
    view: &'a View,
    description: &'a Description,
    output: &'a Output,
    scan: Option<&'a Scan<'a>>,
    failures: &'a FailureWatch,
}

impl Session<'_> {
    /// Tells how the work ended.
    async fn ended(
        &self,
        ending: Result<Ending, WorkerError>,
        progress: &Progress,
    ) -> anyhow::Result<Exit> {
        let Self { name, .. } = self;
        // Whatever happened, others learn what was met here.
        self.output.hand_in_books(self.run).await?;
        match ending {
            Ok(Ending::Done) => self.end("is done").await,
            Ok(Ending::Parked { .. }) => self.end("is done but for what is parked").await,
            Ok(Ending::Stopped) => {
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
            Err(error) => Err(error.into()),
        }
    }

    /// Writes results and receipt of a run in which everything was tried, and tells of them.
    async fn end(&self, how: &str) -> anyhow::Result<Exit> {
        let Self { coordinator, name, run, view, description, output, .. } = self;
        let is_over = self.failures.is_over(coordinator, *run, true).await?;
        let receipt = conclude(coordinator, *name, *run, description, output).await?;
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

/// Writes the result file and the receipt, unless the place is another run's by now.
async fn conclude(
    coordinator: &Coordinator,
    name: RunName,
    run: RunId,
    description: &Description,
    output: &Output,
) -> anyhow::Result<Receipt> {
    output.ensure_current(run).await?;
    loop {
        let record = coordinator.get_run(TENANT, run).await?;
        let shards = coordinator.inspect_shards(TENANT, run).await?;
        let built = output.build(run, &shards).await?;
        let mut tally = Tally::default();
        output.books(run).await?.iter().for_each(|books| tally.add(books));
        let receipt = Receipt::new(name, &record, description, &shards, &built, tally)?;
        let _alone = output.lock();
        output.ensure_current(run).await?;
        let now = coordinator.inspect_shards(TENANT, run).await?;
        // Building takes time, and what was set aside may have been done meanwhile. Then a later
        // file may be there already, which an older one must not replace. If somebody is still at
        // it, theirs is yet to come.
        if is_settled(&now) && now != shards {
            continue;
        }
        output.publish(built, serde_json::to_vec_pretty(&receipt)?).await?;
        return Ok(receipt);
    }
}

fn is_settled(shards: &[ShardRecord]) -> bool {
    shards.iter().all(|shard| shard.head.status != ShardStatus::Active)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::begin::tests::Bench;
    use crate::output::{RESULTS, Replaced};

    #[tokio::test]
    async fn a_run_that_was_replaced_writes_no_results() {
        let bench = Bench::new().await;
        let old = bench.begin(&bench.arguments(&[], "cat")).await.unwrap();
        let coordinator = &bench.coordinator;
        let wrote = conclude(coordinator, old.name, old.run, &old.description, &old.output).await;
        wrote.unwrap();
        let new = bench.begin(&bench.arguments(&["--fresh"], "cat")).await.unwrap();
        let results = new.output.folder().join(RESULTS);
        std::fs::write(&results, "newer").unwrap();
        let wrote = conclude(coordinator, old.name, old.run, &old.description, &old.output).await;
        assert!(wrote.is_err_and(|error| error.is::<Replaced>()));
        assert_eq!(std::fs::read(&results).unwrap(), b"newer");
        let record = coordinator.get_run(TENANT, old.run).await.unwrap();
        assert_eq!(record.status, RunStatus::Cancelled);
    }
}
