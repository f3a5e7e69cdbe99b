//! Pausing, resuming and ending a run.

use shardwright_contracts::OpId;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunRecord, RunTransitionError};
use shardwright_jobs::TENANT;

use crate::commands::runs::word;
use crate::commands::{find, print_json};
use crate::exit::Exit;
use crate::say::say;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

/// Refuses to begin work on a paused run: whoever paused it may want somebody to have a look first,
/// and whoever begins may have nobody who would let it go on.
pub(crate) fn ensure_not_paused(name: RunName, record: &RunRecord) -> anyhow::Result<()> {
    anyhow::ensure!(
        !record.paused,
        "the run {name} is paused; `shardwright resume {name}` lets work on it go on"
    );
    Ok(())
}

/// What is to become of a run.
#[derive(Clone, Copy)]
pub(crate) enum Transition {
    Pause,
    Resume,
    Cancel,
}

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    name: RunName,
    transition: Transition,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let (run, _) = find(&coordinator, name).await?;
    let op = OpId::from_raw(fastrand::u64(..));
    let (changed, status, meaning) = match transition {
        Transition::Pause => {
            let changed = coordinator.pause_run(TENANT, run, op).await;
            (changed, "paused", "workers give their shards back")
        }
        Transition::Resume => {
            let changed = coordinator.resume_run(TENANT, run, op).await;
            (changed, "active", "workers go on")
        }
        Transition::Cancel => {
            let changed = coordinator.cancel_run(TENANT, run, op).await;
            (changed, "cancelled", "nothing more of it is committed")
        }
    };
    if let Err(RunTransitionError::RunTerminal(ended)) = &changed {
        anyhow::bail!("the run {name} has ended: it is {}", word(ended.status, false));
    }
    changed?;
    if json {
        print_json(&serde_json::json!({ "name": name.as_str(), "status": status }))?;
    } else {
        say!("{name} is {status}: {meaning}");
    }
    Ok(Exit::Done)
}
