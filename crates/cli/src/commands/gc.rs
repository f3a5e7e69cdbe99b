//! `shardwright gc`: runs that ended long ago, and what only they needed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shardwright_contracts::{OpId, RunId};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, Job, RunName, RunQueryError,
};
use shardwright_engine::Retention;

use crate::arguments::GcArguments;
use crate::begin::create;
use crate::commands::{TENANT, print_json};
use crate::description::Description;
use crate::exit::Exit;
use crate::output::{Output, remove, shown};
use crate::say::{note, say};
use crate::source::left_behind;
use crate::store::{Coordinator, Purpose, StoreAddress};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The lease of a run that nobody will work on.
const LEASE_SECONDS: u16 = 10;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &GcArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let state = store.state_folder();
    let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    let kept_ms = arguments.keep_days.saturating_mul(DAY_MS);
    let young_ms = kept_ms.max(DAY_MS);
    let jobs = coordinator.list_jobs(TENANT).await?;
    for (run, job) in &jobs {
        end_if_never_begun(&coordinator, &state, *run, job, Duration::from_millis(young_ms))
            .await?;
    }
    let retention = Retention { ended_ms: kept_ms, initializing_ms: young_ms };
    let mut collected = Vec::new();
    coordinator.collect_into(retention, &mut collected).await?;
    let (mut gone, mut left) = (Vec::new(), Vec::new());
    for (run, job) in jobs {
        let is_gone = collected.iter().any(|address| address.run == run);
        if is_gone { &mut gone } else { &mut left }.push((run, job));
    }
    let mut needed = Vec::new();
    for (_, job) in &left {
        // What another program wrote down needs nothing of ours.
        let source = Description::decode(&job.description).map(|it| it.source);
        needed.extend(source.map(|source| source.kept_in(&state)).unwrap_or_default());
    }
    for address in &collected {
        let job = gone.iter().find(|(run, _)| *run == address.run).map(|(_, job)| job);
        let mut removed = Vec::new();
        if let Some(job) = job {
            removed = clear(&state, job, address.run, &needed).await;
        }
        tell(json, address.run, job.map(|job| job.name), &removed)?;
    }
    for file in left_behind(&state, Duration::from_millis(young_ms)) {
        remove(&file)?;
    }
    if collected.is_empty() && !json {
        say!("nothing ended more than {} days ago", arguments.keep_days);
    }
    Ok(Exit::Done)
}

/// Takes away what a run has left behind. What cannot be taken away now is told, and nobody will
/// ask for it again.
async fn clear(state: &Path, job: &Job, run: RunId, needed: &[PathBuf]) -> Vec<String> {
    let Ok(description) = Description::decode(&job.description) else { return Vec::new() };
    let mut removed = Vec::new();
    let cleared = match Output::of(&description.results, state, job.name).await {
        Ok(output) => output.clear(run).await,
        Err(error) => Err(error),
    };
    match cleared {
        Ok(places) => removed.extend(places),
        Err(error) => note!("what is left of {} cannot be taken away: {error:#}", job.name),
    }
    for file in description.source.kept_in(state) {
        if needed.contains(&file) {
            continue;
        }
        match remove(&file) {
            Ok(true) => removed.push(file.display().to_string()),
            Ok(false) => {}
            Err(error) => note!("{error:#}"),
        }
    }
    removed
}

fn tell(json: bool, run: RunId, name: Option<RunName>, removed: &[String]) -> anyhow::Result<()> {
    if json {
        let name = name.map(|name| name.to_string());
        return print_json(&serde_json::json!({
            "run": shown(run), "name": name, "removed": removed,
        }));
    }
    let name = name.map_or_else(|| shown(run), |name| name.to_string());
    say!("{name} is gone");
    for place in removed {
        say!("  removed {place}");
    }
    Ok(())
}

/// Ends a run that was given its name long ago, by somebody who was lost before it was begun. It
/// is taken away like others that have ended.
async fn end_if_never_begun(
    coordinator: &Coordinator,
    state: &Path,
    run: RunId,
    job: &Job,
    age: Duration,
) -> anyhow::Result<()> {
    match coordinator.get_run(TENANT, run).await {
        Err(RunQueryError::RunNotFound(_)) => {}
        Ok(_) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let Ok(description) = Description::decode(&job.description) else { return Ok(()) };
    // Whether it is old can be seen only where its results were to go.
    let Ok(output) = Output::of(&description.results, state, job.name).await else {
        return Ok(());
    };
    let reserved = output.reserved_at(run).and_then(|at| at.elapsed().ok());
    if reserved.is_none_or(|elapsed| elapsed < age) {
        return Ok(());
    }
    create(coordinator, run, &description, LEASE_SECONDS).await?;
    coordinator.cancel_run(TENANT, run, OpId::from_raw(fastrand::u64(..))).await?;
    note!("{} was never begun: it is cancelled", job.name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use super::*;
    use crate::begin::tests::Bench;

    #[tokio::test]
    async fn a_run_that_was_never_begun_is_ended_when_it_is_old() {
        let bench = Bench::new().await;
        let arguments = bench.arguments(&[], "cat");
        let (named, output) = bench.name_only(&arguments).await;
        output.reserve(arguments.make.name.unwrap(), named, false).await.unwrap();
        let at_once = GcArguments { keep_days: 0 };
        run(&bench.store, false, &at_once).await.unwrap();
        assert_eq!(bench.coordinator.list_jobs(TENANT).await.unwrap().len(), 1);
        let marker = output.books_folder(named).join("run.json");
        let old = SystemTime::now() - Duration::from_millis(2 * DAY_MS);
        File::options().append(true).open(&marker).unwrap().set_modified(old).unwrap();
        run(&bench.store, false, &at_once).await.unwrap();
        assert!(bench.coordinator.list_jobs(TENANT).await.unwrap().is_empty());
        assert!(!marker.exists());
    }
}
