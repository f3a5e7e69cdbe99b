//! `shardwright retry --parked`: what was set aside, again.

use anyhow::Context as _;
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, RunName, ShardFilter,
};

use crate::arguments::RetryArguments;
use crate::begin::{Found, resume, state_folder};
use crate::commands::transition::ensure_not_paused;
use crate::commands::unpark::unpark;
use crate::commands::{TENANT, find};
use crate::exit::Exit;
use crate::say::note;
use crate::store::{Coordinator, Purpose, StoreAddress};
use crate::work::work;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &RetryArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let name = match arguments.run {
        Some(name) => name,
        None => the_one_with_parked(&coordinator).await?,
    };
    let (run, description) = find(&coordinator, name).await?;
    let state = state_folder(store)?;
    let begun = resume(&coordinator, &state, None, Found { name, run, description }).await?;
    // Before anything is changed.
    ensure_not_paused(name, &coordinator.get_run(TENANT, run).await?)?;
    let parked = coordinator.list_shards(TENANT, run, ShardFilter::parked()).await?;
    let parked: Vec<_> = parked.iter().map(|shard| shard.shard).collect();
    unpark(&coordinator, run, &parked).await?;
    if !json {
        note!("{} unparked", parked.len());
    }
    work(&coordinator, json, begun, &arguments.work, None).await
}

/// The run that is meant when none is named.
async fn the_one_with_parked(coordinator: &Coordinator) -> anyhow::Result<RunName> {
    let mut found = Vec::new();
    for (run, job) in coordinator.list_jobs(TENANT).await? {
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
