//! `shardwright cluster`: shows the state of a cluster, and changes where its shards are.

mod drain;
mod plan;
mod shards;
mod status;

use std::time::Duration;

use crate::arguments::cluster::{ClusterArguments, ClusterCommand};
use crate::cluster::open;
use crate::exit::Exit;
use crate::store::{OpenMode, StoreAddress};

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &ClusterArguments,
) -> anyhow::Result<Exit> {
    let cluster = open(store, &arguments.cluster, OpenMode::Read).await?;
    match &arguments.command {
        ClusterCommand::Status => status::run(&cluster, json),
        ClusterCommand::Plan => plan::run(&cluster, json),
        ClusterCommand::Move { shard, to } => shards::move_to(&cluster, json, *shard, to).await,
        ClusterCommand::Pin { shard, to } => shards::pin(&cluster, json, *shard, to.as_ref()).await,
        ClusterCommand::Unpin { shard } => shards::unpin(&cluster, json, *shard).await,
        ClusterCommand::Drain { node, undo, wait, timeout_ms } => {
            let wait = match (wait, timeout_ms) {
                (false, _) => drain::Wait::None,
                (true, None) => drain::Wait::UntilDone,
                (true, Some(ms)) => drain::Wait::AtMost(Duration::from_millis(*ms)),
            };
            drain::run(&cluster, json, node, !undo, wait).await
        }
        ClusterCommand::Freeze { undo } => shards::freeze(&cluster, json, !undo).await,
    }
}
