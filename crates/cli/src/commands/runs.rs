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
use crate::console::outln;
use crate::exit::Exit;
use crate::state::State;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let mut runs = Vec::new();
    for (run, label) in coordinator.list_labels(TENANT).await? {
        runs.extend(Listed::of(&coordinator, run, label).await?);
    }
    if runs.is_empty() && !json {
        outln!("no runs");
    }
    // The newest first. Runs that have not started yet come before all others.
    runs.sort_by_key(|listed| listed.record.as_ref().map(|record| Reverse(record.created_at)));
    for listed in runs {
        listed.print(json)?;
    }
    Ok(Exit::Done)
}

struct Listed {
    run: RunId,
    label: RunLabel,
    record: Option<RunRecord>,
    state: State,
    /// Whether the name still refers to this run.
    is_current: bool,
}

impl Listed {
    /// Returns `None` if the run was deleted meanwhile.
    async fn of(
        coordinator: &Coordinator,
        run: RunId,
        label: RunLabel,
    ) -> anyhow::Result<Option<Self>> {
        let is_current = match coordinator.find_run(TENANT, label.name).await {
            Ok(named) => named == Some(run),
            Err(InfraError::Corrupt { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        let record = match coordinator.get_run(TENANT, run).await {
            Ok(record) => Some(record),
            Err(RunQueryError::RunNotFound(_)) => {
                let state = State::NotBegun;
                return Ok(Some(Self { run, label, record: None, state, is_current }));
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
        Ok(Some(Self { run, label, record, state, is_current }))
    }

    fn print(self, json: bool) -> anyhow::Result<()> {
        let Self { run, label, record, state, is_current } = self;
        let source = Description::decode(&label.description).ok().map(|it| it.source);
        let other = || "(created by another program)".to_owned();
        let begun_at = record.as_ref().map(|record| record.created_at.as_millis());
        if json {
            let without = if state == State::Damaged { "damaged" } else { "not begun" };
            let status = record.map_or(without, |record| word(record.status, record.paused));
            return print_json(&serde_json::json!({
                "name": label.name.as_str(), "run": shown(run), "status": status,
                "state": state.word(), "begun_at_ms": begun_at,
                "source": source.map_or_else(other, |source| source.shown()),
                "current": is_current,
            }));
        }
        let age = begun_at.map_or_else(String::new, |at| format!("{} ago", readable_time(ago(at))));
        let source = source.as_ref().map_or_else(other, Source::title);
        let old = if is_current { "" } else { "  (replaced)" };
        outln!("{:32} {state:22} {age:>16}  {source}{old}", label.name);
        Ok(())
    }
}

/// The time since a timestamp, by this machine's clock.
pub(crate) fn ago(at_ms: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(at_ms))
}

/// The name of a run's status.
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
