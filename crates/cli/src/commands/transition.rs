//! Pausing, resuming and ending a run.

use shardwright_contracts::OpId;
use shardwright_coordination::{AsyncRunManagement as _, RunName};

use crate::commands::{TENANT, find, print_json};
use crate::exit::Exit;
use crate::say::say;
use crate::store::{Purpose, StoreAddress};

pub(crate) async fn pause(store: &StoreAddress, json: bool, name: RunName) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let (run, _) = find(&coordinator, name).await?;
    coordinator.pause_run(TENANT, run, new_op()).await?;
    told(json, name, "paused", "workers give their shards back")
}

pub(crate) async fn resume(
    store: &StoreAddress,
    json: bool,
    name: RunName,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let (run, _) = find(&coordinator, name).await?;
    coordinator.resume_run(TENANT, run, new_op()).await?;
    told(json, name, "active", "workers go on")
}

pub(crate) async fn cancel(
    store: &StoreAddress,
    json: bool,
    name: RunName,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let (run, _) = find(&coordinator, name).await?;
    coordinator.cancel_run(TENANT, run, new_op()).await?;
    told(json, name, "cancelled", "nothing more of it is committed")
}

fn new_op() -> OpId {
    OpId::from_raw(fastrand::u64(..))
}

fn told(json: bool, name: RunName, status: &str, meaning: &str) -> anyhow::Result<Exit> {
    if json {
        print_json(&serde_json::json!({ "name": name.as_str(), "status": status }))?;
    } else {
        say!("{name} is {status}: {meaning}");
    }
    Ok(Exit::Done)
}
