use shardwright_coordination::AsyncRunDirectory as _;
use shardwright_engine::Retention;

use crate::arguments::GcArguments;
use crate::commands::{TENANT, print_json};
use crate::exit::Exit;
use crate::output::{default_folder, shown};
use crate::say::say;
use crate::store::{Purpose, StoreAddress};

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &GcArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let jobs = coordinator.list_jobs(TENANT).await?;
    let kept_ms = arguments.keep_days.saturating_mul(DAY_MS);
    let retention = Retention { ended_ms: kept_ms, initializing_ms: kept_ms.max(DAY_MS) };
    let mut collected = Vec::new();
    coordinator.collect_into(retention, &mut collected).await?;
    for address in &collected {
        let job = jobs.iter().find(|(run, _)| *run == address.run);
        let name = job.map(|(_, job)| job.name);
        if json {
            let name = name.map(|name| name.to_string());
            print_json(&serde_json::json!({ "run": shown(address.run), "name": name }))?;
        } else {
            let name = name.map_or_else(|| shown(address.run), |name| name.to_string());
            say!("{name} is gone");
        }
        // Results are the user's; only what served to build them goes.
        if let (Some(name), Some(state)) = (name, store.folder()) {
            let segments = default_folder(state, name).join("segments").join(shown(address.run));
            if segments.is_dir() {
                std::fs::remove_dir_all(segments)?;
            }
        }
    }
    if collected.is_empty() && !json {
        say!("nothing ended more than {} days ago", arguments.keep_days);
    }
    Ok(Exit::Done)
}
