//! `shardwright pause`, `resume` and `cancel`.

use shardwright_contracts::OpId;
use shardwright_coordination::{AsyncRunManagement as _, RunName, RunRecord, RunTransitionError};
use shardwright_engine::random;
use shardwright_jobs::TENANT;

use crate::commands::runs::word;
use crate::commands::{find, print_json};
use crate::console::outln;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

/// Rejects work on a paused run. A new process would wait until an operator resumes the run,
/// possibly unnoticed.
pub(crate) fn ensure_not_paused(name: RunName, record: &RunRecord) -> anyhow::Result<()> {
    anyhow::ensure!(!record.paused, "run {name} is paused; `shardwright resume {name}` resumes it");
    Ok(())
}

/// A change of a run's status.
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
    let op = OpId::from_raw(random());
    let (changed, status, meaning) = match transition {
        Transition::Pause => {
            let changed = coordinator.pause_run(TENANT, run, op).await;
            (changed, "paused", "workers release their shards")
        }
        Transition::Resume => {
            let changed = coordinator.resume_run(TENANT, run, op).await;
            (changed, "active", "workers may claim shards again")
        }
        Transition::Cancel => {
            let changed = coordinator.cancel_run(TENANT, run, op).await;
            (changed, "cancelled", "workers can commit nothing more")
        }
    };
    if let Err(RunTransitionError::RunTerminal(ended)) = &changed {
        anyhow::bail!("run {name} has already ended: it is {}", word(ended.status, false));
    }
    changed?;
    if json {
        print_json(&serde_json::json!({ "name": name.as_str(), "status": status }))?;
    } else {
        outln!("run {name} is {status}: {meaning}");
    }
    Ok(Exit::Done)
}
