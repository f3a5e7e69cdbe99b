//! `shardwright demo`: demonstrations on this machine.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use shardwright_demo::{Fault, Load, LoadOptions, Recorded, Verdict};
use shardwright_engine::random;

use crate::arguments::demo::{DemoClusterArguments, DemoCommand};
use crate::demo::{Event, Fleet, Mark, Movement, Phase, Reporter, Setup};
use crate::exit::Exit;
use crate::serve::Signals;
use crate::store::{StoreAddress, TrustedFolders};

pub(crate) async fn run(
    store: Option<StoreAddress>,
    trusted: &TrustedFolders,
    json: bool,
    command: &DemoCommand,
) -> anyhow::Result<Exit> {
    let DemoCommand::Cluster(arguments) = command;
    let folder = tempfile::tempdir()?;
    let store = store.unwrap_or_else(|| StoreAddress::file(folder.path().join("store")));
    let mut signals = Signals::new()?;
    tokio::select! {
        biased;
        // The child processes end with this process.
        () = signals.next() => Ok(Exit::Interrupted),
        ended = show(store, trusted, json, arguments) => ended,
    }
}

async fn show(
    store: StoreAddress,
    trusted: &TrustedFolders,
    json: bool,
    arguments: &DemoClusterArguments,
) -> anyhow::Result<Exit> {
    let reporter = Reporter { json };
    let setup = Setup {
        store,
        trusted: trusted.clone(),
        // A new name each time, because the store may contain earlier demonstrations.
        name: format!("demo-{:016x}", random()),
        nodes: arguments.nodes as usize,
        gates: arguments.gates as usize,
        shards: arguments.shards,
        session: Duration::from_millis(arguments.session_ms),
    };
    let session = setup.session;
    let (nodes, gates) = (setup.nodes, setup.gates);
    reporter.begins("start", &format!("{nodes} nodes and {gates} gates, one process each"))?;
    let mut fleet = Fleet::start(setup).await?;
    let movement = Movement::follow(fleet.cluster().changes());
    let load = Load::start(LoadOptions {
        gates: fleet.gates(),
        rate: arguments.rate,
        counters: arguments.counters,
        deadline: Duration::from_millis(arguments.deadline_ms),
    })?;
    let demo = Demo { reporter, load, movement, phase: Cell::new("calm") };
    let cluster = fleet.cluster().clone();
    let history = tokio::select! {
        biased;
        history = demo.apply_events(&mut fleet, arguments) => history?,
        failed = demo.report_seconds(|| cluster.view().members.len()) => return Err(failed),
    };
    let Demo { reporter, load, .. } = demo;
    let tally = load.stop().await;
    let total = fleet.counters().total().await?;
    fleet.end().await?;
    let History { phases, faults, broken } = history;
    let recorded = Recorded { tally: &tally, faults: &faults, total, session, broken };
    let verdict = Verdict::of(recorded);
    reporter.end(&phases, &tally, total, &verdict)?;
    Ok(if verdict.broken.is_empty() { Exit::Done } else { Exit::Findings })
}

/// A demonstration in progress.
struct Demo {
    reporter: Reporter,
    load: Load,
    movement: Movement,
    phase: Cell<&'static str>,
}

/// The phases and faults so far, and the events that failed.
#[derive(Default)]
struct History {
    phases: Vec<Phase>,
    faults: Vec<Fault>,
    broken: Vec<String>,
}

impl Demo {
    fn mark(&self) -> Mark {
        Mark::new(self.load.elapsed(), &self.load.tally(), self.movement.so_far())
    }

    async fn apply_events(
        &self,
        fleet: &mut Fleet,
        arguments: &DemoClusterArguments,
    ) -> anyhow::Result<History> {
        // Calls end within their deadline, so none of them overlaps two events.
        let calm = Duration::from_millis(arguments.calm_ms.max(arguments.deadline_ms));
        let mut history = History::default();
        for event in [Event::Calm].into_iter().chain(arguments.events.iter().copied()) {
            let (name, start) = (event.name(), self.mark());
            self.phase.set(name);
            let at = RefCell::new(None);
            let begun = || {
                at.replace(Some(self.load.elapsed()));
            };
            self.reporter.begins(name, event.description())?;
            let applied = fleet.apply(event, begun).await;
            if let Some(at) = at.into_inner().filter(|_| event.is_fault()) {
                history.faults.push(Fault { name, at });
            }
            if let Err(error) = applied {
                history.broken.push(format!("{error:#}"));
            }
            tokio::time::sleep(calm).await;
            let end = self.mark();
            history.phases.push(start.to(end, &self.load.tally(), name));
        }
        Ok(history)
    }

    /// Reports the state every second. Returns only if a report fails.
    async fn report_seconds(&self, nodes: impl Fn() -> usize) -> anyhow::Error {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.tick().await;
        let mut last = self.mark();
        loop {
            seconds.tick().await;
            let now = self.mark();
            let since = last.to(now, &self.load.tally(), self.phase.get());
            if let Err(error) = self.reporter.second(self.load.elapsed(), nodes(), &since) {
                return error;
            }
            last = now;
        }
    }
}
