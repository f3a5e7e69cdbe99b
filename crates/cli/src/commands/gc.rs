//! `shardwright gc`: runs that ended long ago, and what only they needed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use shardwright_contracts::RunId;
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, RunLabel, RunName, RunQueryError,
};
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{create, end};
use shardwright_jobs::description::Description;
use shardwright_jobs::output::{Output, remove, shown};
use shardwright_jobs::source::left_behind;
use shardwright_runs::Retention;

use crate::arguments::GcArguments;
use crate::commands::print_json;
use crate::exit::Exit;
use crate::say::{note, say};
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The lease of a run that nobody will work on.
const LEASE_SECONDS: u16 = 10;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &GcArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let state = store.state_folder();
    let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    let kept_ms = arguments.keep_days.saturating_mul(DAY_MS);
    let young_ms = kept_ms.max(DAY_MS);
    let jobs = coordinator.list_labels(TENANT).await?;
    let abandoned = Abandoned {
        coordinator: &coordinator,
        state: &state,
        is_shared: store.is_shared(),
        age: Duration::from_millis(young_ms),
    };
    // One that cannot be ended keeps no other from that, and is told in the end.
    let mut failure = None;
    for (run, job) in &jobs {
        if let Err(error) = abandoned.end(*run, job).await {
            failure.get_or_insert(error.context(format!("{} ({})", job.name, shown(*run))));
        }
    }
    let retention = Retention { ended_ms: kept_ms, initializing_ms: young_ms };
    let mut collected = Vec::new();
    // What is gone from the store is cleared away now, or nobody ever does that.
    if let Err(error) = coordinator.collect_into(retention, &mut collected).await {
        failure.get_or_insert(error.into());
    }
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
    if let Some(failure) = failure {
        return Err(failure);
    }
    if collected.is_empty() && !json {
        say!("nothing ended more than {} days ago", arguments.keep_days);
    }
    Ok(Exit::Done)
}

/// Takes away what a run has left behind. What cannot be taken away now is told, and nobody will
/// ask for it again.
async fn clear(state: &Path, job: &RunLabel, run: RunId, needed: &[PathBuf]) -> Vec<String> {
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

/// What is looked at to find runs that nobody goes on with.
struct Abandoned<'a> {
    coordinator: &'a Coordinator,
    state: &'a Path,
    /// Whether others may have places for results that are not reached from here.
    is_shared: bool,
    /// After so long, nobody is still about to begin a run.
    age: Duration,
}

impl Abandoned<'_> {
    /// Ends a run that nobody goes on with: it was given its name by somebody who was lost before
    /// it was begun, or its name is another one's and whoever did that was lost before it was
    /// ended. It is taken away like others that have ended.
    async fn end(&self, run: RunId, job: &RunLabel) -> anyhow::Result<()> {
        let Self { coordinator, .. } = self;
        let name = job.name;
        let Ok(description) = Description::decode(&job.description) else { return Ok(()) };
        let named = coordinator.find_run(TENANT, name).await?;
        let is_replaced = named.is_some_and(|named| named != run);
        let how = match coordinator.get_run(TENANT, run).await {
            Ok(record) if is_replaced && !record.status.is_terminal() => "was replaced",
            Ok(_) => return Ok(()),
            Err(RunQueryError::RunNotFound(_)) => {
                let is_known = coordinator.label_of(TENANT, run).await?.is_some();
                if !is_known || !is_replaced && !self.is_left(run, name, &description).await {
                    return Ok(());
                }
                create(coordinator, run, &description, LEASE_SECONDS).await?;
                "was never begun"
            }
            Err(error) => return Err(error.into()),
        };
        end(coordinator, run).await?;
        note!("{name} ({}) {how}: it is cancelled", shown(run));
        Ok(())
    }

    /// Whether a run that was never begun was given its name long ago, or nobody can begin it.
    async fn is_left(&self, run: RunId, name: RunName, description: &Description) -> bool {
        let Ok(output) = Output::of(&description.results, self.state, name).await else {
            return false;
        };
        match output.reserved_at(run).await {
            Ok(Some(at)) => at.elapsed().is_ok_and(|elapsed| elapsed >= self.age),
            // Whoever makes a run leaves its marker first. Without it nobody joins the run, unless
            // it is in a place of another machine.
            Ok(None) => !self.is_shared || output.is_the_same_for_all(),
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::SystemTime;

    use shardwright_coordination::RunStatus;
    use shardwright_runs::keys::RunKeys;
    use shardwright_store::{Commit, Expect, Key, Store};

    use super::*;
    use crate::testing::Bench;

    #[tokio::test]
    async fn a_run_that_was_never_begun_is_ended_when_it_is_old() {
        let bench = Bench::new().await;
        let options = bench.options("cat");
        let (named, output) = bench.name_only(&options).await;
        output.reserve(options.name.unwrap(), named, false).await.unwrap();
        let at_once = GcArguments { keep_days: 0 };
        run(&bench.store, false, &at_once).await.unwrap();
        assert_eq!(bench.coordinator.list_labels(TENANT).await.unwrap().len(), 1);
        let marker = output.journal_folder(named).join("run.json");
        let old = SystemTime::now() - Duration::from_millis(2 * DAY_MS);
        File::options().append(true).open(&marker).unwrap().set_modified(old).unwrap();
        run(&bench.store, false, &at_once).await.unwrap();
        assert!(bench.coordinator.list_labels(TENANT).await.unwrap().is_empty());
        assert!(!marker.exists());
    }

    #[tokio::test]
    async fn a_run_that_was_never_begun_and_has_no_marker_is_ended_at_once() {
        let bench = Bench::new().await;
        bench.name_only(&bench.options("cat")).await;
        run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap();
        assert!(bench.coordinator.list_labels(TENANT).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_taken_away_keeps_no_files_of_others() {
        let bench = Bench::new().await;
        let damaged = bench.begin(&bench.options("cat")).await.unwrap();
        let other = bench.begin(&bench.fresh("cat")).await.unwrap();
        end(&bench.coordinator, other.run).await.unwrap();
        let (store, keys) = bench.store.connect_for(OpenMode::Write, "runs", None).await.unwrap();
        let key = RunKeys::new(keys).count(TENANT, damaged.run);
        scribble(&store, key).await;
        let folder = |run| other.output.journal_folder(run);
        assert!(folder(damaged.run).exists() && folder(other.run).exists());
        assert!(run(&bench.store, false, &GcArguments { keep_days: 0 }).await.is_err());
        assert!(bench.coordinator.get_run(TENANT, other.run).await.is_err());
        assert!(folder(damaged.run).exists() && !folder(other.run).exists());
    }

    #[tokio::test]
    async fn a_run_that_cannot_be_read_keeps_no_other_from_being_listed_and_taken_away() {
        let bench = Bench::new().await;
        let damaged = bench.begin(&bench.options("cat")).await.unwrap();
        let other = bench.begin(&bench.fresh("cat")).await.unwrap();
        end(&bench.coordinator, other.run).await.unwrap();
        let (store, keys) = bench.store.connect_for(OpenMode::Write, "runs", None).await.unwrap();
        scribble(&store, RunKeys::new(keys).run(TENANT, damaged.run)).await;
        assert_eq!(crate::commands::runs::run(&bench.store, false).await.unwrap(), Exit::Done);
        let told = run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap_err();
        assert!(told.to_string().contains(&shown(damaged.run)), "{told}");
        assert!(bench.coordinator.find_run(TENANT, other.name).await.unwrap().is_none());
        assert!(!other.output.journal_folder(other.run).exists());
    }

    async fn scribble(store: &impl Store, key: Key) {
        let found = store.load(std::slice::from_ref(&key)).await.unwrap();
        let at = Expect::At(found.values[0].as_ref().unwrap().revision);
        let scribble = Commit::builder().expect(key.clone(), at).put(key, "scribble");
        store.commit(scribble.build().unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn a_run_whose_name_is_another_ones_is_ended_if_nobody_has_done_so() {
        let bench = Bench::new().await;
        let options = bench.options("cat");
        let replaced = bench.begin(&options).await.unwrap();
        // Whoever replaces it is lost before it is ended.
        bench.name_instead_of(&replaced).await;
        let status = async || {
            let record = bench.coordinator.get_run(TENANT, replaced.run).await;
            record.map(|record| record.status)
        };
        assert_eq!(status().await.unwrap(), RunStatus::Active);
        run(&bench.store, false, &GcArguments { keep_days: 1 }).await.unwrap();
        assert_eq!(status().await.unwrap(), RunStatus::Cancelled);
        run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap();
        assert!(status().await.is_err());
    }
}
