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
use shardwright_store::FolderOwner;

use self::transition::Transition;
use crate::arguments::{Arguments, Command, GivenStore};
use crate::console::write_data;
use crate::exit::Exit;
use crate::store::{Coordinator, StoreAddress, TrustedFolders};

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let Arguments { store: chosen, trusted, etcd, json, command } = arguments;
    let chosen = chosen.map(GivenStore::address).transpose()?;
    let trusted = TrustedFolders::new(trusted);
    let chosen = chosen.map(|store| store.with_access(etcd.into()).with_trusted(trusted.clone()));
    let store =
        chosen.clone().unwrap_or_else(|| StoreAddress::default().with_trusted(trusted.clone()));
    let uses_state = match &command {
        Command::Completions { .. } => false,
        Command::Demo(_) => chosen.is_some(),
        _ => true,
    };
    let is_foreign = uses_state && is_foreign(&store, &trusted)?;
    match command {
        Command::Run(arguments) => run::run(&store, json, &arguments).await,
        Command::Scan(arguments) => scan::run(&store, json, &arguments).await,
        Command::Runs => runs::run(&store, json).await,
        Command::Show(choice) => show::run(&store, json, choice.run).await,
        Command::Shards(choice) => shards::run(&store, json, choice.run).await,
        Command::Parked(choice) => parked::run(&store, json, choice.run).await,
        Command::Unpark(arguments) => unpark::run(&store, json, &arguments).await,
        Command::Retry(arguments) => {
            let is_shared = is_foreign || store.is_writable_by_others();
            retry::run(&store, json, &arguments, is_shared).await
        }
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
        Command::Demo(command) => demo::run(chosen, &trusted, json, &command).await,
        Command::Completions { shell } => Ok(completions::run(shell)),
    }
}

/// Whether another user owns the state, whom the caller trusts. Refuses any other foreign state.
fn is_foreign(store: &StoreAddress, trusted: &TrustedFolders) -> anyhow::Result<bool> {
    let folder = store.state_folder();
    match trusted.check(folder) {
        Ok(owner) => Ok(owner == FolderOwner::Trusted),
        Err(foreign) => {
            let (folder, variable) = (folder.display(), TrustedFolders::VARIABLE);
            anyhow::bail!(
                "{foreign}; to use it, add --trust-folder {folder}, or list the folder in \
                 {variable}"
            )
        }
    }
}

/// Finds a run and its description by its name.
pub(crate) async fn find(
    coordinator: &Coordinator,
    name: RunName,
) -> anyhow::Result<(RunId, Description)> {
    let run = coordinator.find_run(TENANT, name).await?;
    let run = run.with_context(|| format!("no run {name}; `shardwright runs` lists all runs"))?;
    let label = coordinator.label_of(TENANT, run).await?;
    let label = label.with_context(|| format!("run {name} was deleted meanwhile"))?;
    Ok((run, Description::decode(&label.description)?))
}

/// Writes a JSON value to stdout, on one line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    write_data(&serde_json::to_string(value)?);
    Ok(())
}
