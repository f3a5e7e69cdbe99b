//! `shardwright retry --parked`: retries parked items in this process.
//!
//! The store holds the command. Where other users can write the store, they can change the command,
//! so the caller confirms it.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use shardwright_coordination::{AsyncRunDirectory as _, AsyncRunManagement as _, RunName};
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{Found, resume, state_folder};
use shardwright_jobs::description::{Description, Mode};

use crate::arguments::runs::RetryArguments;
use crate::commands::find;
use crate::console::errln;
use crate::exit::Exit;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RetryArguments,
    is_shared: bool,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let name = match arguments.run {
        Some(name) => name,
        None => only_run_with_parked(&coordinator).await?,
    };
    let (run, mut description) = find(&coordinator, name).await?;
    description.limits = arguments.limits.limits().or(description.limits);
    confirm(name, &description, arguments, is_shared)?;
    let state = state_folder(store)?;
    let begun = resume(&coordinator, &state, Found { name, run, description }).await?;
    work(&coordinator, json, begun, &arguments.work, Task::RestAndParked).await
}

/// Prints the stored command, and refuses one that the caller did not confirm. `is_shared` if other
/// users can write the store.
fn confirm(
    name: RunName,
    description: &Description,
    arguments: &RetryArguments,
    is_shared: bool,
) -> anyhow::Result<()> {
    if matches!(description.mode, Mode::Scan { .. } | Mode::Library) {
        // The store holds no command of such a run, and it is refused later.
        return Ok(());
    }
    let stored = description.command();
    let line = description.command_line();
    errln!("run {name} runs `{line}` on {}", description.source.title());
    let RetryArguments { items, command, .. } = arguments;
    let is_same = description.placeholders.item() == items.placeholders().item()
        && description.shell == items.shell.is_some();
    let is_repeated = is_same && items.command(command) == stored;
    let is_given = !items.command(command).is_empty() || items.replace.is_some();
    anyhow::ensure!(
        is_repeated || !is_given,
        "run {name} has another command, shown above; repeat it exactly, or omit it. Nothing was \
         run"
    );
    if is_repeated || arguments.yes || !is_shared {
        return Ok(());
    }
    anyhow::ensure!(
        io::stdin().is_terminal() && io::stderr().is_terminal(),
        "other users can write this store, so its command needs a confirmation: check the command, \
         then add --yes, or repeat the command: `shardwright retry --parked {name} {}`",
        description.command_arguments()
    );
    errln!("other users can write this store. Run this command with your rights? [y/N]");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    let is_confirmed = matches!(answer.trim(), "y" | "Y" | "yes");
    anyhow::ensure!(is_confirmed, "the command was not confirmed; nothing was run");
    Ok(())
}

/// The run that has parked items, if there is only one.
async fn only_run_with_parked(coordinator: &Coordinator) -> anyhow::Result<RunName> {
    let mut found = Vec::new();
    for (run, label) in coordinator.list_labels(TENANT).await? {
        if coordinator.find_run(TENANT, label.name).await? != Some(run) {
            continue;
        }
        let progress = coordinator.get_run_progress(TENANT, run).await;
        if progress.is_ok_and(|progress| progress.parked > 0) {
            found.push(label.name);
        }
    }
    let names = || found.iter().map(RunName::to_string).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(found.len() < 2, "several runs have parked items; name one of {}", names());
    found.first().copied().context("no run has parked items")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::testing::Bench;

    #[tokio::test]
    async fn refused_retry_leaves_items_parked() {
        let bench = Bench::new().await;
        let command_line = ["shardwright", "retry", "--parked", "it"];
        let Command::Retry(arguments) = Arguments::parse_from(command_line).command else {
            panic!("{command_line:?}")
        };
        let begun = bench.begin(&bench.scan_options()).await.unwrap();
        let run = begun.run;
        bench.park(begun).await;
        let refusal = super::run(&bench.store, true, &arguments, false).await.unwrap_err();
        let why = "a run of `scan` does not store its rules";
        assert!(format!("{refusal:#}").contains(why), "{refusal:#}");
        let progress = bench.coordinator.get_run_progress(TENANT, run).await.unwrap();
        assert_eq!((progress.parked, progress.active), (1, 0));
    }
}
