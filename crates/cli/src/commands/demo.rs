//! `shardwright demo`: things to see.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use shardwright_demo::{Load, LoadOptions, Recorded, Trouble, Verdict};

use crate::arguments::demo::{DemoClusterArguments, DemoCommand};
use crate::demo::{Event, Fleet, Mark, Movement, Phase, Reporter, Setup};
use crate::exit::Exit;
use crate::serve::Signals;
use crate::store::StoreAddress;

pub(crate) async fn run(
    store: Option<StoreAddress>,
    json: bool,
    command: &DemoCommand,
) -> anyhow::Result<Exit> {
    let DemoCommand::Cluster(arguments) = command;
    let folder = tempfile::tempdir()?;
    let store = store.unwrap_or_else(|| StoreAddress::File(folder.path().join("store")));
    let mut signals = Signals::new()?;
    tokio::select! {
        biased;
        // All processes end with us.
        () = signals.next() => Ok(Exit::Interrupted),
        ended = show(store, json, arguments) => ended,
    }
}

async fn show(
    store: StoreAddress,
    json: bool,
    arguments: &DemoClusterArguments,
) -> anyhow::Result<Exit> {
    let reporter = Reporter { json };
    let setup = Setup {
        store,
        // Another one each time: a store may hold what is left of earlier ones.
        name: format!("demo-{:016x}", fastrand::u64(..)),
        nodes: arguments.nodes as usize,
        gates: arguments.gates as usize,
        shards: arguments.shards,
        session: Duration::from_millis(arguments.session_ms),
    };
    let session = setup.session;
    let (nodes, gates) = (setup.nodes, setup.gates);
    reporter.begins("start", &format!("nodes: {nodes}, gates: {gates}, a process each"))?;
    let mut fleet = Fleet::start(setup).await?;
    let movement = Movement::follow(fleet.cluster().changes());
    let load = Load::start(LoadOptions {
        gates: fleet.gates(),
        rate: arguments.rate,
        counters: arguments.counters,
        deadline: Duration::from_millis(arguments.deadline_ms),
    })?;
    let stage = Stage { reporter, load, movement, phase: Cell::new("calm") };
    let cluster = fleet.cluster().clone();
    let played = tokio::select! {
        biased;
        played = stage.play(&mut fleet, arguments) => played?,
        failed = stage.tell(|| cluster.view().members.len()) => return Err(failed),
    };
    let Stage { reporter, load, .. } = stage;
    let tally = load.stop().await;
    let total = fleet.counters().total().await?;
    fleet.end().await?;
    let Played { phases, troubles, broken } = played;
    let recorded = Recorded { tally: &tally, troubles: &troubles, total, session, broken };
    let verdict = Verdict::of(recorded);
    reporter.end(&phases, &tally, total, &verdict)?;
    Ok(if verdict.broken.is_empty() { Exit::Done } else { Exit::Findings })
}

/// Where it all happens.
struct Stage {
    reporter: Reporter,
    load: Load,
    movement: Movement,
    phase: Cell<&'static str>,
}

/// What has happened.
#[derive(Default)]
struct Played {
    phases: Vec<Phase>,
    troubles: Vec<Trouble>,
    broken: Vec<String>,
}

impl Stage {
    fn mark(&self) -> Mark {
        Mark::new(self.load.elapsed(), &self.load.tally(), self.movement.so_far())
    }

    async fn play(
        &self,
        fleet: &mut Fleet,
        arguments: &DemoClusterArguments,
    ) -> anyhow::Result<Played> {
        // So long that all calls have ended that were made before: what comes next is not to blame.
        let calm = Duration::from_millis(arguments.calm_ms.max(arguments.deadline_ms));
        let mut played = Played::default();
        for event in [Event::Calm].into_iter().chain(arguments.events.iter().copied()) {
            let (name, start) = (event.name(), self.mark());
            self.phase.set(name);
            let at = RefCell::new(None);
            let begun = || {
                at.replace(Some(self.load.elapsed()));
            };
            self.reporter.begins(name, event.sentence())?;
            let lived = fleet.live_through(event, begun).await;
            if let Some(at) = at.into_inner().filter(|_| event.is_trouble()) {
                played.troubles.push(Trouble { name, at });
            }
            if let Err(error) = lived {
                played.broken.push(format!("{error:#}"));
            }
            tokio::time::sleep(calm).await;
            let end = self.mark();
            played.phases.push(start.to(end, &self.load.tally(), name));
        }
        Ok(played)
    }

    /// Tells how it goes, every second; it ends only if that cannot be told.
    async fn tell(&self, nodes: impl Fn() -> usize) -> anyhow::Error {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        seconds.tick().await;
        let mut last = self.mark();
        loop {
            seconds.tick().await;
            let now = self.mark();
            let since = last.to(now, &self.load.tally(), self.phase.get());
            if let Err(error) = self.reporter.moment(self.load.elapsed(), nodes(), &since) {
                return error;
            }
            last = now;
        }
    }
}
