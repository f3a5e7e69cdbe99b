use shardwright_coordination::{AsyncRunManagement as _, AsyncWorkEstimates as _, RunName};

use crate::commands::runs::word;
use crate::commands::{TENANT, find, print_json};
use crate::exit::Exit;
use crate::output::shown;
use crate::say::say;
use crate::store::{Purpose, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool, name: RunName) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let (run, description) = find(&coordinator, name).await?;
    let record = coordinator.get_run(TENANT, run).await?;
    let progress = coordinator.get_run_progress(TENANT, run).await?;
    let estimates = coordinator.list_estimates(TENANT, run).await?;
    let status = word(record.status, record.paused);
    let left_ms = estimates.iter().filter_map(|held| held.estimate.left_ms).max();
    if json {
        print_json(&serde_json::json!({
            "name": name.as_str(), "run": shown(run), "status": status,
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
    say!("run      {name} ({}), {status}", shown(run));
    say!("source   {}", description.source.shown());
    let command: Vec<String> =
        description.command().iter().map(|part| part.display().to_string()).collect();
    say!("command  {}", command.join(" "));
    say!(
        "shards   {} done, {} active ({} held), {} parked",
        progress.done,
        progress.active,
        progress.leased,
        progress.parked
    );
    if let Some(left_ms) = left_ms.filter(|_| progress.leased > 0) {
        say!("left     about {} s", left_ms.div_ceil(1_000));
    }
    Ok(Exit::Done)
}
