//! `shardwright retry --parked`: what was set aside, again.

use anyhow::Context as _;
use shardwright_coordination::{AsyncRunDirectory as _, AsyncRunManagement as _, RunName};
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{Found, resume, state_folder};

use crate::arguments::RetryArguments;
use crate::commands::find;
use crate::exit::Exit;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};
use crate::work::{Task, work};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RetryArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let name = match arguments.run {
        Some(name) => name,
        None => the_one_with_parked(&coordinator).await?,
    };
    let (run, description) = find(&coordinator, name).await?;
    let state = state_folder(store)?;
    let begun = resume(&coordinator, &state, Found { name, run, description }).await?;
    work(&coordinator, json, begun, &arguments.work, Task::RestAndParked).await
}

/// The run that is meant when none is named.
async fn the_one_with_parked(coordinator: &Coordinator) -> anyhow::Result<RunName> {
    let mut found = Vec::new();
    for (run, job) in coordinator.list_labels(TENANT).await? {
        if coordinator.find_run(TENANT, job.name).await? != Some(run) {
            continue;
        }
        let progress = coordinator.get_run_progress(TENANT, run).await;
        if progress.is_ok_and(|progress| progress.parked > 0) {
            found.push(job.name);
        }
    }
    let names = || found.iter().map(RunName::to_string).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(found.len() < 2, "several runs have something parked, say which: {}", names());
    found.first().copied().context("no run has anything parked")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, Command};
    use crate::testing::Bench;
    use shardwright_jobs::JobOptions;
    use shardwright_jobs::description::Mode;

    #[tokio::test]
    async fn what_cannot_be_tried_again_stays_parked() {
        let bench = Bench::new().await;
        let said = ["shardwright", "retry", "--parked", "it"];
        let Command::Retry(arguments) = Arguments::parse_from(said).command else {
            panic!("{said:?}")
        };
        for (begun_with, why) in [
            (bench.scan_options(), "the rules of a scan are not kept with it"),
            (JobOptions { mode: Mode::Persistent, ..bench.fresh("true") }, "ended unexpectedly"),
        ] {
            let begun = bench.begin(&begun_with).await.unwrap();
            let run = begun.run;
            bench.park(begun).await;
            let refusal = super::run(&bench.store, true, &arguments).await.unwrap_err();
            assert!(format!("{refusal:#}").contains(why), "{refusal:#}");
            let progress = bench.coordinator.get_run_progress(TENANT, run).await.unwrap();
            assert_eq!((progress.parked, progress.active), (1, 0), "{why}");
        }
    }
}
