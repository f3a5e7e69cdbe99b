//! `shardwright gc`: deletes runs that ended long ago, and the files that only they used.

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

use crate::arguments::runs::GcArguments;
use crate::commands::print_json;
use crate::console::{errln, outln};
use crate::exit::Exit;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;
/// The lease TTL of a run that is created only to be cancelled.
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
    let labels = coordinator.list_labels(TENANT).await?;
    let abandoned = Abandoned {
        coordinator: &coordinator,
        state: &state,
        is_shared: store.is_shared(),
        age: Duration::from_millis(young_ms),
    };
    // A failure for one run does not stop the others. The first failure is reported at the end.
    let mut failure = None;
    for (run, label) in &labels {
        if let Err(error) = abandoned.end(*run, label).await {
            failure.get_or_insert(error.context(format!("{} ({})", label.name, shown(*run))));
        }
    }
    let retention = Retention { ended_ms: kept_ms, initializing_ms: young_ms };
    let mut collected = Vec::new();
    // Files of runs that were deleted from the store are deleted even after a failure. No later gc
    // would find them.
    if let Err(error) = coordinator.collect_into(retention, &mut collected).await {
        failure.get_or_insert(error.into());
    }
    let (mut deleted, mut kept) = (Vec::new(), Vec::new());
    for (run, label) in labels {
        let is_deleted = collected.iter().any(|address| address.run == run);
        if is_deleted { &mut deleted } else { &mut kept }.push((run, label));
    }
    let mut needed = Vec::new();
    for (_, label) in &kept {
        // A run of another program, whose description is unknown, uses no files of ours.
        let source = Description::decode(&label.description).map(|it| it.source);
        needed.extend(source.map(|source| source.kept_in(&state)).unwrap_or_default());
    }
    for address in &collected {
        let found = deleted.iter().find(|(run, _)| *run == address.run);
        let label = found.map(|(_, label)| label);
        let mut removed = Vec::new();
        if let Some(label) = label {
            removed = clear(&state, label, address.run, &needed).await;
        }
        report(json, address.run, label.map(|label| label.name), &removed)?;
    }
    for file in left_behind(&state, Duration::from_millis(young_ms)) {
        remove(&file)?;
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if collected.is_empty() && !json {
        outln!("no run ended more than {} days ago", arguments.keep_days);
    }
    Ok(Exit::Done)
}

/// Deletes the files of a run, and returns their paths. A failure is only noted: no later gc
/// retries it.
async fn clear(state: &Path, label: &RunLabel, run: RunId, needed: &[PathBuf]) -> Vec<String> {
    let Ok(description) = Description::decode(&label.description) else { return Vec::new() };
    let mut removed = Vec::new();
    let cleared = match Output::of(&description.results, state, label.name).await {
        Ok(output) => output.clear(run).await,
        Err(error) => Err(error),
    };
    match cleared {
        Ok(paths) => removed.extend(paths),
        Err(error) => errln!("cannot delete the files of {}: {error:#}", label.name),
    }
    for file in description.source.kept_in(state) {
        if needed.contains(&file) {
            continue;
        }
        match remove(&file) {
            Ok(true) => removed.push(file.display().to_string()),
            Ok(false) => {}
            Err(error) => errln!("{error:#}"),
        }
    }
    removed
}

fn report(json: bool, run: RunId, name: Option<RunName>, removed: &[String]) -> anyhow::Result<()> {
    if json {
        let name = name.map(|name| name.to_string());
        return print_json(&serde_json::json!({
            "run": shown(run), "name": name, "removed": removed,
        }));
    }
    let name = name.map_or_else(|| shown(run), |name| name.to_string());
    outln!("deleted run {name}");
    for path in removed {
        outln!("  removed {path}");
    }
    Ok(())
}

/// Finds and cancels abandoned runs.
struct Abandoned<'a> {
    coordinator: &'a Coordinator,
    state: &'a Path,
    /// Whether other machines use the store. Their local results cannot be seen from here.
    is_shared: bool,
    /// The age after which a run that never started counts as abandoned.
    age: Duration,
}

impl Abandoned<'_> {
    /// Cancels an abandoned run, so that it is collected like others that ended.
    ///
    /// A run is abandoned if the process that created it died before the run started. It is also
    /// abandoned if another run has its name, and the process that replaced it died before it
    /// cancelled the old run.
    async fn end(&self, run: RunId, label: &RunLabel) -> anyhow::Result<()> {
        let Self { coordinator, .. } = self;
        let name = label.name;
        let Ok(description) = Description::decode(&label.description) else { return Ok(()) };
        let named = coordinator.find_run(TENANT, name).await?;
        let is_replaced = named.is_some_and(|named| named != run);
        let how = match coordinator.get_run(TENANT, run).await {
            Ok(record) if is_replaced && !record.status.is_terminal() => "was replaced",
            Ok(_) => return Ok(()),
            Err(RunQueryError::RunNotFound(_)) => {
                let is_known = coordinator.label_of(TENANT, run).await?.is_some();
                if !is_known || !is_replaced && !self.is_abandoned(run, name, &description).await {
                    return Ok(());
                }
                create(coordinator, run, &description, LEASE_SECONDS).await?;
                "never started"
            }
            Err(error) => return Err(error.into()),
        };
        end(coordinator, run).await?;
        errln!("cancelled {name} ({}): it {how}", shown(run));
        Ok(())
    }

    /// Whether a run that never started was named long ago, or can no longer start.
    async fn is_abandoned(&self, run: RunId, name: RunName, description: &Description) -> bool {
        let Ok(output) = Output::of(&description.results, self.state, name).await else {
            return false;
        };
        match output.reserved_at(run).await {
            Ok(Some(at)) => at.elapsed().is_ok_and(|elapsed| elapsed >= self.age),
            // A process writes the marker before it creates the run. Without the marker no process
            // joins the run, unless the marker is on another machine.
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
    use shardwright_engine::random;
    use shardwright_runs::keys::RunKeys;
    use shardwright_store::{Commit, Expect, Key, Store};

    use super::*;
    use crate::testing::Bench;

    #[tokio::test]
    async fn old_run_that_never_started_is_deleted() {
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
    async fn unstarted_run_without_a_marker_is_deleted_at_once() {
        let bench = Bench::new().await;
        bench.name_only(&bench.options("cat")).await;
        run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap();
        assert!(bench.coordinator.list_labels(TENANT).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn undeletable_run_does_not_keep_files_of_others() {
        let bench = Bench::new().await;
        let damaged = bench.begin(&bench.options("cat")).await.unwrap();
        let other = bench.begin(&bench.fresh("cat")).await.unwrap();
        end(&bench.coordinator, other.run).await.unwrap();
        let (store, keys) = bench.store.connect_for(OpenMode::Write, "runs", None).await.unwrap();
        let key = RunKeys::new(keys).count(TENANT, damaged.run);
        corrupt(&store, key).await;
        let folder = |run| other.output.journal_folder(run);
        assert!(folder(damaged.run).exists() && folder(other.run).exists());
        assert!(run(&bench.store, false, &GcArguments { keep_days: 0 }).await.is_err());
        assert!(bench.coordinator.get_run(TENANT, other.run).await.is_err());
        assert!(folder(damaged.run).exists() && !folder(other.run).exists());
    }

    #[tokio::test]
    async fn unreadable_run_does_not_stop_listing_and_gc() {
        let bench = Bench::new().await;
        let damaged = bench.begin(&bench.options("cat")).await.unwrap();
        let other = bench.begin(&bench.fresh("cat")).await.unwrap();
        end(&bench.coordinator, other.run).await.unwrap();
        let (store, keys) = bench.store.connect_for(OpenMode::Write, "runs", None).await.unwrap();
        corrupt(&store, RunKeys::new(keys).run(TENANT, damaged.run)).await;
        assert_eq!(crate::commands::runs::run(&bench.store, false).await.unwrap(), Exit::Done);
        let error = run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap_err();
        assert!(error.to_string().contains(&shown(damaged.run)), "{error}");
        assert!(bench.coordinator.find_run(TENANT, other.name).await.unwrap().is_none());
        assert!(!other.output.journal_folder(other.run).exists());
    }

    async fn corrupt(store: &impl Store, key: Key) {
        let found = store.load(std::slice::from_ref(&key)).await.unwrap();
        let at = Expect::At(found.values[0].as_ref().unwrap().revision);
        let commit = Commit::builder().expect(key.clone(), at).put(key, "corrupt");
        store.commit(commit.build().unwrap()).await.unwrap();
    }

    #[tokio::test]
    async fn path_in_a_record_leads_gc_to_no_other_folder() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let elsewhere = bench.state.parent().unwrap().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let spool = bench.state.join("spool");
        std::fs::create_dir_all(&spool).unwrap();
        let mut planted: serde_json::Value =
            serde_json::from_slice(&begun.description.encode().unwrap()).unwrap();
        for path in [spool.join("../../elsewhere"), elsewhere.clone(), spool.clone()] {
            planted["source"] = serde_json::json!({
                "kind": "lines", "path": path.to_str(), "null": false, "piped": true,
            });
            let name = RunName::new("planted").unwrap();
            let label = RunLabel { name, description: planted.to_string().into_bytes().into() };
            let found = bench.coordinator.find_run(TENANT, name).await.unwrap();
            let run = RunId::from_raw(random());
            bench.coordinator.name_run(TENANT, run, &label, found).await.unwrap();
            super::run(&bench.store, false, &GcArguments { keep_days: 0 }).await.unwrap();
            assert!(elsewhere.is_dir() && spool.is_dir(), "{}", path.display());
        }
    }

    #[tokio::test]
    async fn replaced_run_is_cancelled_if_its_replacer_died() {
        let bench = Bench::new().await;
        let options = bench.options("cat");
        let replaced = bench.begin(&options).await.unwrap();
        // The replacing process dies before it cancels the old run.
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
