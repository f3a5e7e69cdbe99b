//! Finding the run that a command means, or making it.
//!
//! Whoever makes a run looks first whether its results can go where they are to go, and leaves a
//! marker there that is named after the run. Only then is the run given its name, and whoever
//! finds it by that name has to find the marker as well: so nobody joins who cannot reach the
//! results, not even in the moment before the run is begun.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use shardwright_contracts::{CursorSemantics, OpId, RunId};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, CreateRunError, CreateRunWithShardsError,
    NameRunError, RegisterShardsError, RunConfig, RunLabel, RunName, RunQueryError, RunRecord,
    RunStatus, RunTransitionError,
};
use shardwright_store::StoreAddress;
use shardwright_worker::connector::{Connector, SharedConnector};
use shardwright_worker::create_run;
use shardwright_worker::sink::Sink as _;

use crate::Coordinator;
use crate::TENANT;
use crate::agreement::Asked;
use crate::description::{Description, Mode, Results};
use crate::options::{JobOptions, readable_name};
use crate::output::{Output, default_folder};
use crate::source::{AnyConnector, Source};

/// Shards per worker at first. More come by splitting.
const SHARDS_PER_WORKER: usize = 4;
const MOST_SHARDS: usize = 256;
/// How often somebody else may give the name to another run while one looks for it.
const MOST_TRIES: usize = 16;

/// What helps if there are as many shards as there may be.
pub const HOW_TO_MAKE_ROOM: &str = "runs that have ended keep their room until they are \
     taken away: `shardwright gc --keep-days 7` does that with those that ended more than 7 days \
     ago, and keeps their results";

/// A run that was found or made.
pub struct Begun {
    /// Its name.
    pub name: RunName,
    /// Its id.
    pub run: RunId,
    /// What it is for.
    pub description: Description,
    /// Its source.
    pub connector: Arc<AnyConnector>,
    /// Where its results go.
    pub output: Output,
    /// Whether it was there before.
    pub is_resumed: bool,
}

/// The folder for what belongs to this machine.
pub fn state_folder(store: &StoreAddress) -> anyhow::Result<PathBuf> {
    let folder = store.state_folder();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(std::fs::canonicalize(folder)?)
}

/// Finds the run of this source and command, or makes it.
pub async fn begin(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    options: &JobOptions,
) -> anyhow::Result<Begun> {
    let source = Source::from_options(options, state).await?;
    let name = options.name.unwrap_or_else(|| derived_name(&source, options));
    Wanted { store, coordinator, state, options, source, library: None, name }.begin().await
}

/// Finds the run of a name whose connector and handler are code of this program, or makes it.
pub async fn begin_library(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    options: &JobOptions,
    connector: SharedConnector,
) -> anyhow::Result<Begun> {
    let name = options.name.context("a run of a library needs a name")?;
    let source = Source::Library { identity: connector.fingerprint().await?.identity };
    let library = Some(connector);
    Wanted { store, coordinator, state, options, source, library, name }.begin().await
}

/// The run that is looked for.
struct Wanted<'a> {
    store: &'a StoreAddress,
    coordinator: &'a Coordinator,
    state: &'a Path,
    options: &'a JobOptions,
    source: Source,
    /// The source itself, if it is code.
    library: Option<SharedConnector>,
    name: RunName,
}

impl Wanted<'_> {
    async fn begin(&self) -> anyhow::Result<Begun> {
        for _ in 0..MOST_TRIES {
            if let Some(begun) = self.find_or_make().await? {
                return Ok(begun);
            }
        }
        anyhow::bail!("others begin the run {} anew again and again", self.name)
    }

    /// Opens the source. Nothing of `ours` is an item.
    async fn open(&self, ours: &[PathBuf]) -> anyhow::Result<AnyConnector> {
        match &self.library {
            Some(connector) => Ok(AnyConnector::Library(connector.clone())),
            None => {
                let given = self.options.source.as_ref().map(Path::new);
                self.source.open(given, self.state, ours).await
            }
        }
    }

    /// One look for the run; none if somebody has given its name to another one meanwhile.
    async fn find_or_make(&self) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, name, .. } = self;
        let found = coordinator.find_run(TENANT, *name).await?;
        if let Some(run) = found
            && !self.options.fresh
            && let Some(job) = coordinator.label_of(TENANT, run).await?
        {
            let description = Description::decode(&job.description)?;
            if !self.is_replaceable(run, &description).await? {
                return self.join(run, description).await;
            }
        }
        self.make(found).await
    }

    /// Whether a run of the name says nothing of what was asked, so that a new one takes its
    /// place: one that somebody named and never began, for something else or without a marker by
    /// which anybody could join; or a scan with nothing left to do, because whoever looks for
    /// secrets again wants to know what is there now.
    async fn is_replaceable(&self, run: RunId, description: &Description) -> anyhow::Result<bool> {
        match self.coordinator.get_run(TENANT, run).await {
            Ok(record) => {
                let are_scans = matches!(description.mode, Mode::Scan { .. });
                let are_scans = are_scans && self.options.is_scan();
                Ok(are_scans && self.is_over(&record).await?)
            }
            Err(RunQueryError::RunNotFound(_)) => {
                let results = self.said_results()?;
                if !self.asked(results.as_ref()).differing(description).is_empty() {
                    return Ok(true);
                }
                let output = Output::of(&description.results, self.state, self.name).await?;
                Ok(!output.is_reserved(run).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether nothing of a run is left to do. What is parked waits for a person.
    async fn is_over(&self, record: &RunRecord) -> anyhow::Result<bool> {
        Ok(match record.status {
            RunStatus::Initializing => false,
            RunStatus::Active => {
                self.coordinator.get_run_progress(TENANT, record.run).await?.active == 0
            }
            RunStatus::Done | RunStatus::Failed | RunStatus::Cancelled => true,
        })
    }

    const fn asked<'a>(&'a self, results: Option<&'a Results>) -> Asked<'a> {
        Asked { options: self.options, source: &self.source, results }
    }

    /// Goes on with a run, if it is the one that was asked for.
    async fn join(&self, run: RunId, description: Description) -> anyhow::Result<Option<Begun>> {
        let joined = self.join_as_it_is(run, description).await;
        match joined {
            Ok(begun) => Ok(Some(begun)),
            // Somebody has begun it anew just now.
            Err(_) if self.is_another_by_now(Some(run)).await? => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    async fn is_another_by_now(&self, found: Option<RunId>) -> anyhow::Result<bool> {
        Ok(self.coordinator.find_run(TENANT, self.name).await? != found)
    }

    async fn join_as_it_is(&self, run: RunId, description: Description) -> anyhow::Result<Begun> {
        let results = self.said_results()?;
        self.asked(results.as_ref()).ensure_same(self.name, &description)?;
        let found = Found { name: self.name, run, description };
        let open = async |ours: &[PathBuf]| self.open(ours).await;
        let begun = go_on(self.coordinator, self.state, found, &self.source, open).await?;
        self.create(run, &begun.description).await?;
        Ok(begun)
    }

    /// Makes the run that has the name. If another one has it by now, nobody would end this one.
    async fn create(&self, run: RunId, description: &Description) -> anyhow::Result<()> {
        create(self.coordinator, run, description, self.options.lease_seconds).await?;
        if self.is_another_by_now(Some(run)).await? {
            end(self.coordinator, run).await?;
            anyhow::bail!("somebody has begun the run {} anew", self.name);
        }
        Ok(())
    }

    /// Goes on with the run that somebody else has given the name.
    async fn join_other(&self, named: RunId) -> anyhow::Result<Option<Begun>> {
        let job =
            self.coordinator.label_of(TENANT, named).await?.context("the run is gone again")?;
        self.join(named, Description::decode(&job.description)?).await
    }

    /// Makes a new run in the place of the one that was found.
    async fn make(&self, found: Option<RunId>) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, state, options, name, .. } = *self;
        // Nothing is left behind of a run whose source cannot be read.
        drop(self.open(&[state.to_owned()]).await?);
        let results = self.place_results()?;
        let output = Output::of(&results, state, name).await?;
        output.make_folder()?;
        let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
        for folder in &ours {
            anyhow::ensure!(
                !self.source.holds_folder(folder),
                "{} is a part of the source; say it as a folder, which passes ours over",
                folder.display()
            );
        }
        let connector = Arc::new(self.open(&ours).await?);
        let fingerprint = connector.fingerprint().await?;
        let by_workers = || (options.workers * SHARDS_PER_WORKER).min(MOST_SHARDS);
        let wanted = options.shards.map_or_else(by_workers, usize::from);
        let ranges = connector.initial_ranges(wanted).await?;
        let source = self.source.clone();
        let description = Description::new(source, &fingerprint, options, results, &ranges);
        let run = RunId::from_raw(fastrand::u64(1..));
        let job = RunLabel { name, description: description.encode()?.into() };
        let may_replace = options.fresh || found.is_some();
        if let Err(refusal) = output.reserve(name, run, may_replace).await {
            // The place may be of somebody who has begun the same just now.
            return if self.is_another_by_now(found).await? { Ok(None) } else { Err(refusal) };
        }
        let named = coordinator.name_run(TENANT, run, &job, found).await;
        if is_surely_nameless(run, &named) {
            output.sink().discard(run).await?;
        }
        let named = named?;
        if named != run {
            // Somebody else was faster, so theirs it is.
            return self.join_other(named).await;
        }
        if let Some(replaced) = found {
            end(coordinator, replaced).await?;
        }
        let made = async {
            output.claim(coordinator, name, run, may_replace).await?;
            self.create(run, &description).await
        };
        match (made.await, coordinator.find_run(TENANT, name).await?) {
            (Ok(()), _) => {
                Ok(Some(Begun { name, run, description, connector, output, is_resumed: false }))
            }
            // So it is if this process was held up, and somebody has begun it anew meanwhile.
            (Err(_), Some(other)) if other != run => self.join_other(other).await,
            (Err(refusal), _) => Err(refusal),
        }
    }

    /// Where results go, if that was said.
    fn said_results(&self) -> anyhow::Result<Option<Results>> {
        if self.options.out_local {
            return Ok(Some(Results::Local));
        }
        self.options.out.as_ref().map(|out| Results::said(out)).transpose()
    }

    fn place_results(&self) -> anyhow::Result<Results> {
        let results = match self.said_results()? {
            Some(results) => results.made()?,
            None if self.store.is_shared() => anyhow::bail!(
                "on a shared store say where results go: --out FOLDER or URL, which every worker \
                 must reach, or --out-local to leave them on each machine"
            ),
            None => Results::folder(&default_folder(self.state, self.name)).made()?,
        };
        anyhow::ensure!(
            !self.source.holds(&results),
            "{} is a part of the source; results would be items",
            results.place()
        );
        Ok(results)
    }
}

/// Whether a run has not got its name and never will. Else whoever looks for it by that name has to
/// find its marker.
const fn is_surely_nameless(run: RunId, named: &Result<RunId, NameRunError>) -> bool {
    match named {
        Ok(named) => named.as_raw() != run.as_raw(),
        Err(NameRunError::LabelTooLarge { .. }) => true,
        Err(NameRunError::RunIdUsed { .. } | NameRunError::BackendError(_)) => false,
    }
}

/// Nobody goes on with a run whose name is another one's now.
pub async fn end(coordinator: &Coordinator, replaced: RunId) -> anyhow::Result<()> {
    let op = OpId::from_raw(fastrand::u64(..));
    match coordinator.cancel_run(TENANT, replaced, op).await {
        Ok(_) => Ok(()),
        // It has ended, or was never begun.
        Err(RunTransitionError::RunTerminal(_) | RunTransitionError::RunNotFound(_)) => Ok(()),
        Err(error) => Err(error).context("the run that is replaced cannot be ended"),
    }
}

/// A run that is there.
pub struct Found {
    /// Its name.
    pub name: RunName,
    /// Its id.
    pub run: RunId,
    /// What it is for.
    pub description: Description,
}

/// Goes on with a run, if its source is still the same.
pub async fn resume(
    coordinator: &Coordinator,
    state: &Path,
    found: Found,
) -> anyhow::Result<Begun> {
    let (source, given) = (found.description.source.clone(), found.description.given());
    let open = async |ours: &[PathBuf]| source.open(given.as_deref(), state, ours).await;
    go_on(coordinator, state, found, &source, open).await
}

/// Goes on with a run, if its source is the same as `source`, which `open` opens.
async fn go_on(
    coordinator: &Coordinator,
    state: &Path,
    found: Found,
    source: &Source,
    open: impl AsyncFnOnce(&[PathBuf]) -> anyhow::Result<AnyConnector>,
) -> anyhow::Result<Begun> {
    let Found { name, run, description } = found;
    let output = Output::of(&description.results, state, name).await?;
    let is_begun = match coordinator.get_run(TENANT, run).await {
        Ok(_) => true,
        Err(RunQueryError::RunNotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    output.join(coordinator, name, run, is_begun).await?;
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let connector = Arc::new(open(&ours).await?);
    let fingerprint = connector.fingerprint().await?;
    if fingerprint.identity != description.fingerprint {
        anyhow::ensure!(
            *source == description.source,
            "the run {name} was begun with another source ({}); say --fresh to begin it anew, or \
             another --run NAME",
            description.source.title()
        );
        anyhow::bail!(
            "the source of the run {name} has changed since it was begun; say --fresh to begin \
             again"
        );
    }
    Ok(Begun { name, run, description, connector, output, is_resumed: true })
}

fn derived_name(source: &Source, options: &JobOptions) -> RunName {
    let shown = match source {
        Source::Lines { piped: true, .. } => "pipe".to_owned(),
        source => source.shown(),
    };
    let identity = serde_json::to_vec(source).unwrap_or_default();
    let mode = serde_json::to_vec(&options.mode).unwrap_or_default();
    let dispatch = [u8::from(options.at_dispatch)];
    let mut parts: Vec<&[u8]> = vec![&identity, &mode, &dispatch];
    parts.extend(options.command.iter().map(|part| part.as_encoded_bytes()));
    readable_name(&shown, &parts)
}

/// Makes the run as it was written down. For all but the first it is there already.
pub async fn create(
    coordinator: &Coordinator,
    run: RunId,
    description: &Description,
    lease_seconds: u16,
) -> anyhow::Result<()> {
    if coordinator.get_run(TENANT, run).await.is_ok_and(|it| it.status != RunStatus::Initializing) {
        return Ok(());
    }
    let semantics = if description.at_dispatch {
        CursorSemantics::Dispatched
    } else {
        CursorSemantics::Completed
    };
    let config = RunConfig::try_new(semantics, u64::from(lease_seconds) * 1_000, None)?;
    let ranges = description.ranges()?;
    match create_run(coordinator, TENANT, run, config, &ranges).await {
        Ok(()) => Ok(()),
        // Somebody with another idea of how long a lease lasts was faster.
        Err(CreateRunWithShardsError::Create(
            CreateRunError::ConfigMismatch(_) | CreateRunError::RunAlreadyExists(_),
        )) => Ok(()),
        Err(CreateRunWithShardsError::Register(RegisterShardsError::ShardLimitExceeded(full))) => {
            anyhow::bail!("there is no room for another run: {full}; {HOW_TO_MAKE_ROOM}")
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use shardwright_coordination::{InfraError, ShardLimits};
    use shardwright_engine::TokioEnv;
    use shardwright_engine::keyspace::Keyspace;
    use shardwright_runs::EngineConfig;

    use super::*;
    use crate::output::Replaced;
    use crate::testing::{Bench, RUN};

    #[tokio::test]
    async fn a_run_that_has_its_place_again_does_not_replace_itself() {
        let bench = Bench::new().await;
        let begun = bench.begin(&bench.options("cat")).await.unwrap();
        let place = begun.output.folder().join("run.json");
        let marker = || -> serde_json::Value {
            serde_json::from_slice(&std::fs::read(&place).unwrap()).unwrap()
        };
        // Another had it meanwhile, of which a store that was set back knows nothing any more.
        let (own, another) = (marker()["run"].clone(), "0000000000000009");
        let mut replaced = marker();
        replaced["run"] = another.into();
        replaced["predecessors"] = serde_json::json!([own]);
        std::fs::write(&place, replaced.to_string()).unwrap();
        begun.output.claim(&bench.coordinator, begun.name, begun.run, true).await.unwrap();
        assert_eq!(marker()["run"], own);
        assert_eq!(marker()["predecessors"], serde_json::json!([another]));
    }

    #[tokio::test]
    async fn nobody_joins_who_does_not_see_the_marker_even_before_a_run_is_begun() {
        for has_marker in [true, false] {
            let bench = Bench::new().await;
            let options = bench.options("cat");
            let (run, output) = bench.name_only(&options).await;
            if has_marker {
                output.reserve(options.name.unwrap(), run, false).await.unwrap();
            }
            let begun = bench.begin(&options).await.unwrap();
            assert_eq!((begun.run == run, begun.is_resumed), (has_marker, has_marker));
            assert_eq!(bench.coordinator.get_run(TENANT, run).await.is_ok(), has_marker);
        }
    }

    #[test]
    fn a_marker_stays_unless_its_run_surely_has_no_name() {
        let unknown = InfraError::Unknown { operation: "name_run", message: "lost".into() };
        for (named, expected) in [
            (Ok(RUN), false),
            (Ok(RunId::from_raw(8)), true),
            (Err(NameRunError::LabelTooLarge { length: 1 }), true),
            (Err(NameRunError::RunIdUsed { run: RUN }), false),
            (Err(unknown.into()), false),
        ] {
            assert_eq!(is_surely_nameless(RUN, &named), expected, "{named:?}");
        }
    }

    #[tokio::test]
    async fn whoever_was_held_up_does_not_take_the_place_back() {
        let bench = Bench::new().await;
        let options = bench.options("cat");
        let (held_up, output) = bench.name_only(&options).await;
        let name = options.name.unwrap();
        output.reserve(name, held_up, false).await.unwrap();
        let fresh = bench.begin(&bench.fresh("cat")).await.unwrap();
        let claimed = output.claim(&bench.coordinator, name, held_up, true).await;
        assert!(claimed.is_err_and(|error| error.is::<Replaced>()));
        output.ensure_current(fresh.run).await.unwrap();
    }

    #[tokio::test]
    async fn a_scan_with_nothing_left_to_do_is_begun_anew_whatever_is_parked() {
        let bench = Bench::new().await;
        let options = bench.scan_options();
        let first = bench.begin(&options).await.unwrap();
        let again = bench.begin(&options).await.unwrap();
        assert_eq!((again.run, again.is_resumed), (first.run, true));
        let replaced = first.run;
        bench.park(first).await;
        let anew = bench.begin(&options).await.unwrap();
        assert!(anew.run != replaced && !anew.is_resumed);
        // A run of a command is none of its business.
        let command = bench.fresh("cat");
        assert!(bench.begin(&command).await.is_ok());
        assert!(bench.begin(&options).await.is_err());
    }

    #[tokio::test]
    async fn where_there_is_no_room_for_a_run_it_is_said_how_to_make_some() {
        let bench = Bench::new().await;
        let env = TokioEnv::current().unwrap();
        let store = bench.store.connect(None).await.unwrap();
        let limits = ShardLimits { per_tenant: 0, total: 0 };
        let config = EngineConfig { limits, ..EngineConfig::on_one_machine() };
        let coordinator = Coordinator::open(store, env, Keyspace::default(), config).await.unwrap();
        let options = bench.options("cat");
        let begun = begin(&bench.store, &coordinator, &bench.state, &options).await;
        let refusal = begun.err().unwrap().to_string();
        assert!(refusal.contains("limit of 0 shards"), "{refusal}");
        assert!(refusal.contains("shardwright gc --keep-days"), "{refusal}");
        // Once there is, the same command begins it.
        assert!(bench.begin(&options).await.is_ok());
    }

    #[tokio::test]
    async fn a_run_that_was_named_and_never_begun_makes_room_for_another() {
        let bench = Bench::new().await;
        bench.name_only(&bench.options("cat")).await;
        let begun = bench.begin(&bench.options("wc")).await.unwrap();
        assert!(begun.run != RUN && !begun.is_resumed);
        let refusal = bench.begin(&bench.options("cat")).await.err().unwrap();
        assert!(refusal.to_string().contains("another command"), "{refusal}");
    }
}
