//! Finding the run that a command means, or making it.
//!
//! Whoever makes a run looks first whether its results can go where they are to go, and leaves a
//! marker there that is named after the run. Only then is the run given its name, and whoever
//! finds it by that name has to find the marker as well: so nobody joins who cannot reach the
//! results, not even in the moment before the run is begun.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use shardwright_contracts::{CursorSemantics, OpId, RunId};
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, CreateRunError, CreateRunWithShardsError, Job,
    RunConfig, RunName, RunQueryError, RunStatus, RunTransitionError,
};
use shardwright_worker::connector::Connector;
use shardwright_worker::create_run;
use shardwright_worker::sink::Sink as _;

use crate::agreement::Asked;
use crate::arguments::RunArguments;
use crate::commands::TENANT;
use crate::description::{Description, Results};
use crate::naming;
use crate::output::{Output, default_folder};
use crate::source::{AnyConnector, Source};
use crate::store::{Coordinator, StoreAddress};

/// Shards per worker at first. More come by splitting.
const SHARDS_PER_WORKER: usize = 4;
const MOST_SHARDS: usize = 256;
/// How often somebody else may give the name to another run while one looks for it.
const MOST_TRIES: usize = 16;

/// A run that was found or made.
pub(crate) struct Begun {
    pub(crate) name: RunName,
    pub(crate) run: RunId,
    pub(crate) description: Description,
    pub(crate) connector: AnyConnector,
    pub(crate) output: Output,
    pub(crate) is_resumed: bool,
}

/// The folder for what belongs to this machine.
pub(crate) fn state_folder(store: &StoreAddress) -> anyhow::Result<PathBuf> {
    let folder = store.state_folder();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    Ok(std::fs::canonicalize(folder)?)
}

/// Finds the run of this source and command, or makes it.
pub(crate) async fn begin(
    store: &StoreAddress,
    coordinator: &Coordinator,
    state: &Path,
    arguments: &RunArguments,
) -> anyhow::Result<Begun> {
    let source = Source::from_arguments(arguments, state).await?;
    let name = arguments.make.name.unwrap_or_else(|| derived_name(&source, arguments));
    let wanted = Wanted { store, coordinator, state, arguments, source, name };
    for _ in 0..MOST_TRIES {
        if let Some(begun) = wanted.find_or_make().await? {
            return Ok(begun);
        }
    }
    anyhow::bail!("others begin the run {name} anew again and again")
}

/// The run that is looked for.
struct Wanted<'a> {
    store: &'a StoreAddress,
    coordinator: &'a Coordinator,
    state: &'a Path,
    arguments: &'a RunArguments,
    source: Source,
    name: RunName,
}

impl Wanted<'_> {
    /// One look for the run; none if somebody has given its name to another one meanwhile.
    async fn find_or_make(&self) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, name, .. } = self;
        let found = coordinator.find_run(TENANT, *name).await?;
        if let Some(run) = found
            && !self.arguments.make.fresh
            && let Some(job) = coordinator.job_of(TENANT, run).await?
        {
            let description = Description::decode(&job.description)?;
            if !self.is_replaceable(run, &description).await? {
                return self.join(run, description).await;
            }
        }
        self.make(found).await
    }

    /// Whether a run of the name says nothing of what was asked, so that a new one takes its
    /// place: one that somebody named and never began, for something else; or a scan that has
    /// ended, because whoever looks for secrets again wants to know what is there now.
    async fn is_replaceable(&self, run: RunId, description: &Description) -> anyhow::Result<bool> {
        match self.coordinator.get_run(TENANT, run).await {
            Ok(record) => {
                let goes_on = matches!(record.status, RunStatus::Initializing | RunStatus::Active);
                Ok(self.arguments.scan.is_some() && !goes_on)
            }
            Err(RunQueryError::RunNotFound(_)) => {
                let results = self.said_results()?;
                Ok(!self.asked(results.as_ref()).differing(description).is_empty())
            }
            Err(error) => Err(error.into()),
        }
    }

    const fn asked<'a>(&'a self, results: Option<&'a Results>) -> Asked<'a> {
        Asked { arguments: self.arguments, source: &self.source, results }
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
        let given = self.arguments.source.as_ref().map(PathBuf::from);
        let source = Some((&self.source, given));
        let begun = resume(self.coordinator, self.state, source, found).await?;
        create(self.coordinator, run, &begun.description, self.arguments.make.lease).await?;
        Ok(begun)
    }

    /// Makes a new run in the place of the one that was found.
    async fn make(&self, found: Option<RunId>) -> anyhow::Result<Option<Begun>> {
        let Self { coordinator, state, arguments, name, .. } = *self;
        let given = arguments.source.as_ref().map(PathBuf::from);
        // Nothing is left behind of a run whose source cannot be read.
        drop(self.source.open(given.as_deref(), state, &[state.to_owned()]).await?);
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
        let connector = self.source.open(given.as_deref(), state, &ours).await?;
        let fingerprint = connector.fingerprint().await?;
        let by_workers = || (arguments.work.workers() * SHARDS_PER_WORKER).min(MOST_SHARDS);
        let wanted = arguments.make.shards.map_or_else(by_workers, usize::from);
        let ranges = connector.initial_ranges(wanted).await?;
        let source = self.source.clone();
        let description = Description::new(source, &fingerprint, arguments, results, &ranges);
        let run = RunId::from_raw(fastrand::u64(1..));
        let job = Job { name, description: description.encode()?.into() };
        let may_replace = arguments.make.fresh || found.is_some();
        if let Err(refusal) = output.reserve(name, run, may_replace).await {
            // The place may be of somebody who has begun the same just now.
            return if self.is_another_by_now(found).await? { Ok(None) } else { Err(refusal) };
        }
        let named = coordinator.name_run(TENANT, run, &job, found).await;
        if !matches!(named, Ok(named) if named == run) {
            output.sink().discard(run).await?;
        }
        let named = named?;
        if named != run {
            // Somebody else was faster, so theirs it is.
            let job = coordinator.job_of(TENANT, named).await?.context("the run is gone again")?;
            return self.join(named, Description::decode(&job.description)?).await;
        }
        if let Some(replaced) = found {
            end(coordinator, replaced).await?;
        }
        output.claim(name, run, may_replace).await?;
        create(coordinator, run, &description, arguments.make.lease).await?;
        Ok(Some(Begun { name, run, description, connector, output, is_resumed: false }))
    }

    /// Where results go, if that was said.
    fn said_results(&self) -> anyhow::Result<Option<Results>> {
        let make = &self.arguments.make;
        if make.out_local {
            return Ok(Some(Results::Local));
        }
        make.out.as_ref().map(|out| Results::said(out)).transpose()
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

/// Nobody goes on with a run whose name is another one's now.
async fn end(coordinator: &Coordinator, replaced: RunId) -> anyhow::Result<()> {
    let op = OpId::from_raw(fastrand::u64(..));
    match coordinator.cancel_run(TENANT, replaced, op).await {
        Ok(_) => Ok(()),
        // It has ended, or was never begun.
        Err(RunTransitionError::RunTerminal(_) | RunTransitionError::RunNotFound(_)) => Ok(()),
        Err(error) => Err(error).context("the run that is replaced cannot be ended"),
    }
}

/// A run that is there.
pub(crate) struct Found {
    pub(crate) name: RunName,
    pub(crate) run: RunId,
    pub(crate) description: Description,
}

/// Goes on with a run, if its source is still the same: that of the run, or the one that was said
/// and as it was said.
pub(crate) async fn resume(
    coordinator: &Coordinator,
    state: &Path,
    said: Option<(&Source, Option<PathBuf>)>,
    found: Found,
) -> anyhow::Result<Begun> {
    let Found { name, run, description } = found;
    let output = Output::of(&description.results, state, name).await?;
    let is_begun = match coordinator.get_run(TENANT, run).await {
        Ok(_) => true,
        Err(RunQueryError::RunNotFound(_)) => false,
        Err(error) => return Err(error.into()),
    };
    output.join(name, run, is_begun).await?;
    let ours = [state.to_owned(), std::fs::canonicalize(output.folder())?];
    let (source, given) = match said {
        Some(said) => said,
        None => (&description.source, description.given()),
    };
    let connector = source.open(given.as_deref(), state, &ours).await?;
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

fn derived_name(source: &Source, arguments: &RunArguments) -> RunName {
    let shown = match source {
        Source::Lines { piped: true, .. } => "pipe".to_owned(),
        source => source.shown(),
    };
    let identity = serde_json::to_vec(source).unwrap_or_default();
    let mode = serde_json::to_vec(&arguments.mode()).unwrap_or_default();
    let dispatch = [u8::from(arguments.at_dispatch)];
    let mut parts: Vec<&[u8]> = vec![&identity, &mode, &dispatch];
    parts.extend(arguments.command.iter().map(|part| part.as_encoded_bytes()));
    naming::derive(&shown, &parts)
}

/// Makes the run as it was written down. For all but the first it is there already.
pub(crate) async fn create(
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
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::store::Purpose;

    const RUN: RunId = RunId::from_raw(7);

    /// A store, a folder with something to work on, and a place for results.
    pub(crate) struct Bench {
        pub(crate) store: StoreAddress,
        pub(crate) coordinator: Coordinator,
        pub(crate) state: PathBuf,
        folder: tempfile::TempDir,
    }

    impl Bench {
        pub(crate) async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("data")).unwrap();
            std::fs::write(folder.path().join("data/item"), "x").unwrap();
            let store = StoreAddress::File(folder.path().join("state"));
            let state = state_folder(&store).unwrap();
            let coordinator = store.open(Purpose::Work).await.unwrap();
            Self { store, coordinator, state, folder }
        }

        pub(crate) fn arguments(&self, flags: &[&str], command: &str) -> Box<RunArguments> {
            let path = |name: &str| self.folder.path().join(name).display().to_string();
            let said = ["shardwright", "run", "--run", "it", "--out", &path("out"), &path("data")];
            let parsed = Arguments::parse_from([&said, flags, &["--", command]].concat());
            match parsed.command {
                Command::Run(arguments) => arguments,
                other => panic!("{other:?}"),
            }
        }

        pub(crate) async fn begin(&self, arguments: &RunArguments) -> anyhow::Result<Begun> {
            begin(&self.store, &self.coordinator, &self.state, arguments).await
        }

        /// Does what whoever begins a run does, up to giving it its name.
        pub(crate) async fn name_only(&self, arguments: &RunArguments) -> (RunId, Output) {
            let source = Source::from_arguments(arguments, &self.state).await.unwrap();
            let results = Results::said(arguments.make.out.as_ref().unwrap()).unwrap();
            let results = results.made().unwrap();
            let name = arguments.make.name.unwrap();
            let output = Output::of(&results, &self.state, name).await.unwrap();
            let connector = source.open(None, &self.state, &[]).await.unwrap();
            let fingerprint = connector.fingerprint().await.unwrap();
            let ranges = connector.initial_ranges(2).await.unwrap();
            let description = Description::new(source, &fingerprint, arguments, results, &ranges);
            let job = Job { name, description: description.encode().unwrap().into() };
            let named = self.coordinator.name_run(TENANT, RUN, &job, None).await.unwrap();
            assert_eq!(named, RUN);
            (RUN, output)
        }
    }

    #[tokio::test]
    async fn nobody_joins_who_does_not_see_the_marker_even_before_a_run_is_begun() {
        let bench = Bench::new().await;
        let arguments = bench.arguments(&[], "cat");
        let (run, output) = bench.name_only(&arguments).await;
        let refusal = bench.begin(&arguments).await.err().unwrap().to_string();
        assert!(refusal.contains("every worker has to reach"), "{refusal}");
        assert!(bench.coordinator.get_run(TENANT, run).await.is_err());
        output.reserve(arguments.make.name.unwrap(), run, false).await.unwrap();
        let begun = bench.begin(&arguments).await.unwrap();
        assert_eq!((begun.run, begun.is_resumed), (run, true));
        assert!(bench.coordinator.get_run(TENANT, run).await.is_ok());
    }

    #[tokio::test]
    async fn a_run_that_was_named_and_never_begun_makes_room_for_another() {
        let bench = Bench::new().await;
        bench.name_only(&bench.arguments(&[], "cat")).await;
        let begun = bench.begin(&bench.arguments(&[], "wc")).await.unwrap();
        assert!(begun.run != RUN && !begun.is_resumed);
        let refusal = bench.begin(&bench.arguments(&[], "cat")).await.err().unwrap();
        assert!(refusal.to_string().contains("another command"), "{refusal}");
    }
}
