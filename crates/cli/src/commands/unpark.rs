use shardwright_contracts::{OpId, RunId, ShardId, ShardKey};
use shardwright_coordination::{AsyncRunManagement as _, ShardFilter};

use crate::arguments::UnparkArguments;
use crate::commands::{TENANT, find, print_json};
use crate::exit::Exit;
use crate::say::say;
use crate::store::{Coordinator, Purpose, StoreAddress};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &UnparkArguments,
) -> anyhow::Result<Exit> {
    let coordinator = store.open(Purpose::Look).await?;
    let name = arguments.run.run;
    let (run, _) = find(&coordinator, name).await?;
    let shards: Vec<ShardId> = if arguments.shards.is_empty() {
        let parked = coordinator.list_shards(TENANT, run, ShardFilter::parked()).await?;
        parked.iter().map(|shard| shard.shard).collect()
    } else {
        arguments.shards.iter().copied().map(ShardId::from_raw).collect()
    };
    unpark(&coordinator, run, &shards).await?;
    if json {
        print_json(&serde_json::json!({ "unparked": shards.len() }))?;
    } else {
        say!("{} unparked; the command that began {name} tries them again", shards.len());
    }
    Ok(Exit::Done)
}

/// Lets shards be tried again.
pub(crate) async fn unpark(
    coordinator: &Coordinator,
    run: RunId,
    shards: &[ShardId],
) -> anyhow::Result<()> {
    for shard in shards {
        let op = OpId::from_raw(fastrand::u64(..));
        coordinator.unpark_shard(TENANT, ShardKey::new(run, *shard), op).await?;
    }
    Ok(())
}
