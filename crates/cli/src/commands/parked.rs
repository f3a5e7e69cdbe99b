use shardwright_coordination::{AsyncRunManagement as _, RunName, ShardFilter};
use shardwright_jobs::TENANT;
use shardwright_process::KeyText;

use crate::commands::{find, print_json};
use crate::console::outln;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool, name: RunName) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let (run, _) = find(&coordinator, name).await?;
    let parked = coordinator.list_shards(TENANT, run, ShardFilter::parked()).await?;
    if parked.is_empty() && !json {
        outln!("no items are parked");
    }
    for shard in parked {
        let id = shard.shard.to_string();
        let reason = shard.park_reason.map_or(String::new(), |reason| format!("{reason:?}"));
        let detail = shard.park_detail.unwrap_or_default();
        let detail = String::from_utf8_lossy(&detail);
        if json {
            print_json(&serde_json::json!({
                "shard": id, "reason": reason, "detail": detail,
                "start": KeyText::new(&shard.start), "end": KeyText::new(&shard.end),
            }))?;
        } else {
            outln!("{id}  {reason}");
            for line in detail.lines() {
                outln!("    {line}");
            }
        }
    }
    Ok(Exit::Done)
}
