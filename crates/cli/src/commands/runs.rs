use std::cmp::Reverse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shardwright_contracts::RunId;
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, InfraError, RunLabel, RunQueryError,
    RunRecord, RunStatus,
};
use shardwright_jobs::TENANT;
use shardwright_jobs::description::Description;
use shardwright_jobs::output::shown;
use shardwright_jobs::readable::readable_time;
use shardwright_jobs::source::Source;

use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::say;
use crate::state::State;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let mut runs = Vec::new();
    for (run, job) in coordinator.list_labels(TENANT).await? {
        runs.extend(Listed::of(&coordinator, run, job).await?);
    }
    if runs.is_empty() && !json {
        say!("there are no runs");
    }
    // The newest first; what is not begun yet is newer still.
    runs.sort_by_key(|listed| listed.record.as_ref().map(|record| Reverse(record.created_at)));
    for listed in runs {
        listed.tell(json)?;
    }
    Ok(Exit::Done)
}

struct Listed {
    run: RunId,
    job: RunLabel,
    record: Option<RunRecord>,
    state: State,
    /// Whether the name is still its own.
    is_current: bool,
}

impl Listed {
    /// None of a run that was taken away just now.
    async fn of(
        coordinator: &Coordinator,
        run: RunId,
        job: RunLabel,
    ) -> anyhow::Result<Option<Self>> {
        let is_current = match coordinator.find_run(TENANT, job.name).await {
            Ok(named) => named == Some(run),
            Err(InfraError::Corrupt { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        let record = match coordinator.get_run(TENANT, run).await {
            Ok(record) => Some(record),
            Err(RunQueryError::RunNotFound(_)) => {
                let state = State::NotBegun;
                return Ok(Some(Self { run, job, record: None, state, is_current }));
            }
            Err(RunQueryError::BackendError(InfraError::Corrupt { .. })) => None,
            Err(error) => return Err(error.into()),
        };
        let state = match (&record, coordinator.get_run_progress(TENANT, run).await) {
            (Some(record), Ok(progress)) => State::of(record, &progress),
            (None, _) | (_, Err(RunQueryError::BackendError(InfraError::Corrupt { .. }))) => {
                State::Damaged
            }
            (_, Err(RunQueryError::RunNotFound(_))) => return Ok(None),
            (_, Err(error)) => return Err(error.into()),
        };
        Ok(Some(Self { run, job, record, state, is_current }))
    }

    fn tell(self, json: bool) -> anyhow::Result<()> {
        let Self { run, job, record, state, is_current } = self;
        let source = Description::decode(&job.description).ok().map(|it| it.source);
        let other = || "(made by another program)".to_owned();
        let begun_at = record.as_ref().map(|record| record.created_at.as_millis());
        if json {
            let without = if state == State::Damaged { "damaged" } else { "not begun" };
            let status = record.map_or(without, |record| word(record.status, record.paused));
            return print_json(&serde_json::json!({
                "name": job.name.as_str(), "run": shown(run), "status": status,
                "state": state.word(), "begun_at_ms": begun_at,
                "source": source.map_or_else(other, |source| source.shown()),
                "current": is_current,
            }));
        }
        let age = begun_at.map_or_else(String::new, |at| format!("{} ago", readable_time(ago(at))));
        let source = source.as_ref().map_or_else(other, Source::title);
        let old = if is_current { "" } else { "  (replaced)" };
        say!("{:32} {state:22} {age:>16}  {source}{old}", job.name);
        Ok(())
    }
}

/// How long ago something was, by this machine's clock.
pub(crate) fn ago(at_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(at_ms))
}

/// What a run's status is called.
pub(crate) const fn word(status: RunStatus, paused: bool) -> &'static str {
    match status {
        RunStatus::Initializing => "beginning",
        RunStatus::Active if paused => "paused",
        RunStatus::Active => "active",
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}
