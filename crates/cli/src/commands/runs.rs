use shardwright_coordination::{AsyncRunDirectory as _, AsyncRunManagement as _, RunStatus};

use crate::commands::{TENANT, print_json};
use crate::description::Description;
use crate::exit::Exit;
use crate::output::shown;
use crate::say::say;
use crate::store::{Purpose, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let jobs = coordinator.list_jobs(TENANT).await?;
    if jobs.is_empty() && !json {
        say!("there are no runs");
    }
    for (run, job) in jobs {
        let record = coordinator.get_run(TENANT, run).await.ok();
        let status = record.map_or("not begun", |record| word(record.status, record.paused));
        let source = Description::decode(&job.description).map(|it| it.source.shown());
        let source = source.unwrap_or_else(|_| "(made by another program)".to_owned());
        let is_current = coordinator.find_run(TENANT, job.name).await? == Some(run);
        if json {
            print_json(&serde_json::json!({
                "name": job.name.as_str(), "run": shown(run), "status": status,
                "source": source, "current": is_current,
            }))?;
        } else {
            let old = if is_current { "" } else { "  (replaced)" };
            say!("{:32} {status:12} {source}{old}", job.name);
        }
    }
    Ok(Exit::Done)
}

/// What a run's status is called.
pub(crate) const fn word(status: RunStatus, paused: bool) -> &'static str {
    match status {
        RunStatus::Initializing => "beginning",
        RunStatus::Active if paused => "paused",
        RunStatus::Active => "active",
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Cancelled => "cancelled",
    }
}
