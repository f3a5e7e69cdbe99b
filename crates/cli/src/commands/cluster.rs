//! `shardwright cluster`: creates, shows, changes and deletes a cluster.

mod drain;
mod lifecycle;
mod plan;
mod shards;
mod status;

use std::time::Duration;

use crate::arguments::cluster::{ClusterArguments, ClusterCommand, OperatorCommand};
use crate::cluster::{AnyCluster, Missing, open};
use crate::exit::Exit;
use crate::store::StoreAddress;

pub(crate) async fn run(
    store: &StoreAddress,
    json: bool,
    arguments: &ClusterArguments,
) -> anyhow::Result<Exit> {
    let choice = &arguments.cluster;
    match &arguments.command {
        ClusterCommand::Create => lifecycle::create(store, json, choice).await,
        ClusterCommand::Delete => lifecycle::delete(store, json, choice).await,
        ClusterCommand::Operate(command) => {
            operate(&open(store, choice, Missing::Fail).await?, json, command).await
        }
    }
}

async fn operate(
    cluster: &AnyCluster,
    json: bool,
    command: &OperatorCommand,
) -> anyhow::Result<Exit> {
    match command {
        OperatorCommand::Status => status::run(cluster, json),
        OperatorCommand::Plan => plan::run(cluster, json),
        OperatorCommand::Move { shard, to } => shards::move_to(cluster, json, *shard, to).await,
        OperatorCommand::Pin { shard, to } => shards::pin(cluster, json, *shard, to.as_ref()).await,
        OperatorCommand::Unpin { shard } => shards::unpin(cluster, json, *shard).await,
        OperatorCommand::Drain { node, undo, wait, timeout_ms } => {
            let wait = match (wait, timeout_ms) {
                (false, _) => drain::Wait::None,
                (true, None) => drain::Wait::UntilDone,
                (true, Some(ms)) => drain::Wait::AtMost(Duration::from_millis(*ms)),
            };
            drain::run(cluster, json, node, !undo, wait).await
        }
        OperatorCommand::Freeze { undo } => shards::freeze(cluster, json, !undo).await,
    }
}
