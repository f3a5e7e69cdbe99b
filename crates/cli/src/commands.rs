//! A file per subcommand.

mod cluster;
mod completions;
mod demo;
mod gate;
mod gc;
mod node;
mod parked;
mod restored;
mod retry;
mod route;
mod run;
pub(crate) mod runs;
mod scan;
mod shards;
mod show;
pub(crate) mod transition;
pub(crate) mod unpark;
mod verify;

use anyhow::Context as _;
use shardwright_contracts::RunId;
use shardwright_coordination::{AsyncRunDirectory as _, RunName};
use shardwright_jobs::TENANT;
use shardwright_jobs::description::Description;

use self::transition::Transition;
use crate::arguments::{Arguments, Command};
use crate::exit::Exit;
use crate::say::write_data;
use crate::store::Coordinator;

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Arguments { store: chosen, etcd, json, command } = arguments;
    let chosen = chosen.map(|store| store.with_access(etcd.into()));
    let store = chosen.clone().unwrap_or_default();
    match command {
        Command::Run(arguments) => run::run(&store, json, &arguments).await,
        Command::Scan(arguments) => scan::run(&store, json, &arguments).await,
        Command::Runs => runs::run(&store, json).await,
        Command::Show(choice) => show::run(&store, json, choice.run).await,
        Command::Shards(choice) => shards::run(&store, json, choice.run).await,
        Command::Parked(choice) => parked::run(&store, json, choice.run).await,
        Command::Unpark(arguments) => unpark::run(&store, json, &arguments).await,
        Command::Retry(arguments) => retry::run(&store, json, &arguments).await,
        Command::Pause(choice) => {
            transition::run(&store, json, choice.run, Transition::Pause).await
        }
        Command::Resume(choice) => {
            transition::run(&store, json, choice.run, Transition::Resume).await
        }
        Command::Cancel(choice) => {
            transition::run(&store, json, choice.run, Transition::Cancel).await
        }
        Command::Verify(arguments) => verify::run(&store, json, &arguments).await,
        Command::Gc(arguments) => gc::run(&store, json, &arguments).await,
        Command::Restored => restored::run(&store, json).await,
        Command::Node(arguments) => node::run(&store, json, &arguments).await,
        Command::Gate(arguments) => gate::run(&store, json, &arguments).await,
        Command::Cluster(arguments) => cluster::run(&store, json, &arguments).await,
        Command::Route(arguments) => route::run(&store, json, &arguments).await,
        Command::Demo(command) => demo::run(chosen, json, &command).await,
        Command::Completions { shell } => Ok(completions::run(shell)),
    }
}

/// The run of a name, and what it is for.
pub(crate) async fn find(
    coordinator: &Coordinator,
    name: RunName,
) -> anyhow::Result<(RunId, Description)> {
    let run = coordinator.find_run(TENANT, name).await?;
    let run =
        run.with_context(|| format!("there is no run {name}; `shardwright runs` lists them"))?;
    let job = coordinator.label_of(TENANT, run).await?;
    let job = job.with_context(|| format!("the run {name} is gone"))?;
    Ok((run, Description::decode(&job.description)?))
}

/// Writes one JSON value on a line of its own.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    write_data(&serde_json::to_string(value)?);
    Ok(())
}
