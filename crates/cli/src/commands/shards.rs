use shardwright_coordination::{AsyncRunManagement as _, RunName, ShardFilter};
use shardwright_jobs::TENANT;
use shardwright_process::KeyText;

use crate::commands::{find, print_json};
use crate::console::outln;
use crate::exit::Exit;
use crate::store::{OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(store: &StoreAddress, json: bool, name: RunName) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let (run, description) = find(&coordinator, name).await?;
    for shard in coordinator.list_shards(TENANT, run, ShardFilter::all()).await? {
        let id = shard.shard.to_string();
        let status = format!("{:?}", shard.status).to_lowercase();
        if json {
            print_json(&serde_json::json!({
                "shard": id, "status": status, "held": shard.lease_deadline.is_some(),
                "acquired": shard.acquire_count, "splits": shard.spawned_count,
                "start": KeyText::new(&shard.start), "end": KeyText::new(&shard.end),
                "done_up_to": shard.last_key.as_deref().map(KeyText::new),
            }))?;
        } else {
            let held = if shard.lease_deadline.is_some() { "held" } else { "" };
            let cursor = shard.last_key.as_deref().unwrap_or(&shard.start);
            let shown = |key: &[u8]| description.source.key_shown(key);
            let [start, cursor, end] = [&shard.start, cursor, &shard.end].map(shown);
            outln!("{id}  {status:7} {held:4}  {start} .. {cursor} .. {end}");
        }
    }
    Ok(Exit::Done)
}
