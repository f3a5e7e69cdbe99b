use shardwright_coordination::{
    AsyncRunManagement as _, AsyncWorkEstimates as _, RunName, RunProgress,
};
use shardwright_jobs::TENANT;
use shardwright_jobs::output::shown;
use shardwright_jobs::readable::{printable, readable_time};

use crate::commands::runs::{ago, word};
use crate::commands::{find, print_json};
use crate::console::outln;
use crate::exit::Exit;
use crate::state::State;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool, name: RunName) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let (run, description) = find(&coordinator, name).await?;
    let record = coordinator.get_run(TENANT, run).await?;
    let progress = coordinator.get_run_progress(TENANT, run).await?;
    let estimates = coordinator.list_estimates(TENANT, run).await?;
    let (status, state) = (word(record.status, record.paused), State::of(&record, &progress));
    let left_ms = estimates.iter().filter_map(|held| held.estimate.left_ms).max();
    if json {
        print_json(&serde_json::json!({
            "name": name.as_str(), "run": shown(run), "status": status, "state": state.word(),
            "source": description.source, "command": description.command,
            "created_at_ms": record.created_at.as_millis(),
            "ended_at_ms": record.completed_at.map(|time| time.as_millis()),
            "shards": {
                "active": progress.active, "held": progress.leased, "done": progress.done,
                "parked": progress.parked, "split": progress.split,
            },
            "left_ms": left_ms,
        }))?;
        return Ok(Exit::Done);
    }
    outln!("run      {name} ({}), {state}", shown(run));
    outln!("started  {} ago", readable_time(ago(record.created_at.as_millis())));
    outln!("source   {}", description.source.title());
    let command = description.command();
    let command: Vec<_> = command.iter().map(|part| part.display().to_string()).collect();
    outln!("command  {}", printable(&command.join(" ")));
    let RunProgress { done, active, leased, parked, .. } = progress;
    // Leases of an ended run may not have expired yet, but they have no effect.
    if state.has_ended() {
        outln!("shards   {done} done, {active} unfinished, {parked} parked");
    } else {
        outln!("shards   {done} done, {active} active ({leased} held), {parked} parked");
    }
    if let Some(left_ms) = left_ms.filter(|_| leased > 0 && !state.has_ended()) {
        outln!("left     about {} s", left_ms.div_ceil(1_000));
    }
    Ok(Exit::Done)
}
