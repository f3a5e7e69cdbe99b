//! `--after`: waits until other runs are complete.

use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::RunId;
use shardwright_coordination::{
    AsyncRunDirectory as _, AsyncRunManagement as _, RunName, RunQueryError,
};
use shardwright_jobs::TENANT;
use shardwright_jobs::begin::{Found, state_folder};
use shardwright_jobs::conclude::concluded;
use shardwright_jobs::description::Description;

use crate::console::errln;
use crate::state::State;
use crate::store::{Coordinator, StoreAddress};

/// First pause between two looks at a run.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
/// Longest such pause.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Waits until all runs are complete and have written their results. Fails if one of them cannot
/// be completed.
pub(crate) async fn wait_for(
    store: &StoreAddress,
    coordinator: &Coordinator,
    json: bool,
    runs: &[RunName],
) -> anyhow::Result<()> {
    for name in runs {
        let run = wait_for_one(coordinator, json, *name).await?;
        let label = coordinator.label_of(TENANT, run).await?;
        if let Some(label) = label {
            let description = Description::decode(&label.description)?;
            let found = Found { name: *name, run, description };
            concluded(coordinator, &state_folder(store)?, &found).await?;
        }
    }
    Ok(())
}

async fn wait_for_one(
    coordinator: &Coordinator,
    json: bool,
    name: RunName,
) -> anyhow::Result<RunId> {
    let (mut wait, mut is_waiting) = (SHORTEST_WAIT, false);
    loop {
        let found = coordinator.find_run(TENANT, name).await?;
        let run =
            found.with_context(|| format!("no run {name}; `shardwright runs` lists all runs"))?;
        let state = state_of(coordinator, run).await?;
        if state == State::Done {
            return Ok(run);
        }
        // A run that was replaced is cancelled after its successor has the name.
        if coordinator.find_run(TENANT, name).await? != Some(run) {
            continue;
        }
        match state {
            State::Failed => anyhow::bail!("run {name} has failed; nothing was begun"),
            State::Cancelled => anyhow::bail!("run {name} was cancelled; nothing was begun"),
            State::DoneButParked { parked } => anyhow::bail!(
                "run {name} is not complete: {parked} of its items are parked; `shardwright retry \
                 --parked {name}` retries them"
            ),
            State::Damaged => anyhow::bail!("the record of run {name} is damaged"),
            State::Done
            | State::NotBegun
            | State::Beginning
            | State::Running { .. }
            | State::Interrupted
            | State::Paused => {}
        }
        if !is_waiting && !json {
            errln!("waiting for run {name}, which is {state}");
        }
        is_waiting = true;
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(LONGEST_WAIT);
    }
}

async fn state_of(coordinator: &Coordinator, run: RunId) -> anyhow::Result<State> {
    match coordinator.get_run(TENANT, run).await {
        Ok(record) => {
            let progress = coordinator.get_run_progress(TENANT, run).await?;
            Ok(State::of(&record, &progress))
        }
        Err(RunQueryError::RunNotFound(_)) => Ok(State::NotBegun),
        Err(error) => Err(error.into()),
    }
}
