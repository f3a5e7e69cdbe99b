use shardwright_contracts::{OpId, RunId, ShardId, ShardKey};
use shardwright_coordination::{AsyncRunManagement as _, ShardFilter};
use shardwright_engine::random;
use shardwright_jobs::TENANT;

use crate::arguments::runs::UnparkArguments;
use crate::commands::{find, print_json};
use crate::console::outln;
use crate::exit::Exit;
use crate::store::{Coordinator, OpenMode, OpenStore as _, StoreAddress};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &UnparkArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(OpenMode::Read).await?;
    let name = arguments.run.run;
    let (run, _) = find(&coordinator, name).await?;
    let unparked = if arguments.shards.is_empty() {
        unpark_all(&coordinator, run).await?
    } else {
        let shards = arguments.shards.iter().copied().map(ShardId::from_raw);
        let shards: Vec<ShardId> = shards.collect();
        unpark(&coordinator, run, &shards).await?;
        shards.len()
    };
    if json {
        print_json(&serde_json::json!({ "unparked": unparked }))?;
    } else {
        let them = if unparked == 1 { "it" } else { "them" };
        outln!("unparked {}; the command that started {name} retries {them}", shards(unparked));
    }
    Ok(Exit::Done)
}

/// A number of shards.
pub(crate) fn shards(count: usize) -> String {
    if count == 1 { "1 shard".to_owned() } else { format!("{count} shards") }
}

/// Unparks all parked shards, and returns their number.
pub(crate) async fn unpark_all(coordinator: &Coordinator, run: RunId) -> anyhow::Result<usize> {
    let parked = coordinator.list_shards(TENANT, run, ShardFilter::parked()).await?;
    let parked: Vec<ShardId> = parked.iter().map(|shard| shard.shard).collect();
    unpark(coordinator, run, &parked).await?;
    Ok(parked.len())
}

/// Unparks shards.
async fn unpark(coordinator: &Coordinator, run: RunId, shards: &[ShardId]) -> anyhow::Result<()> {
    for shard in shards {
        let op = OpId::from_raw(random());
        coordinator.unpark_shard(TENANT, ShardKey::new(run, *shard), op).await?;
    }
    Ok(())
}
