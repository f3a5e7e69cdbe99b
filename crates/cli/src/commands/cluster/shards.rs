//! `shardwright cluster move`, `pin`, `unpin` and `freeze`.

use shardwright_contracts::ShardId;
use shardwright_placement::{NodeAddress, TargetVersion};

use crate::cluster::AnyCluster;
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;

/// The error of a rejected change.
fn unchanged(error: impl Into<anyhow::Error>) -> anyhow::Error {
    let error = error.into();
    anyhow::anyhow!(
        "{error:#}; nothing was changed; `shardwright cluster status` lists nodes and shards"
    )
}

pub(crate) async fn move_to(
    cluster: &AnyCluster,
    json: bool,
    shard: ShardId,
    to: &NodeAddress,
) -> anyhow::Result<Exit> {
    let moved = cluster.move_shard(shard, to).await;
    let version = moved.map_err(unchanged)?;
    report(json, version, &format!("shard {} moves to {to}", shard.as_raw()))
}

pub(crate) async fn pin(
    cluster: &AnyCluster,
    json: bool,
    shard: ShardId,
    to: Option<&NodeAddress>,
) -> anyhow::Result<Exit> {
    let version = cluster.pin(shard, to).await.map_err(unchanged)?;
    let target = cluster.view().map.info(shard)?.target.map(ToString::to_string);
    let target = target.unwrap_or_default();
    report(json, version, &format!("shard {} is pinned to {target}", shard.as_raw()))
}

pub(crate) async fn unpin(
    cluster: &AnyCluster,
    json: bool,
    shard: ShardId,
) -> anyhow::Result<Exit> {
    let version = cluster.unpin(shard).await.map_err(unchanged)?;
    report(json, version, &format!("shard {} may be moved again", shard.as_raw()))
}

pub(crate) async fn freeze(cluster: &AnyCluster, json: bool, frozen: bool) -> anyhow::Result<Exit> {
    let version = cluster.set_frozen(frozen).await?;
    let line = if frozen {
        "moves for balance are off; `cluster freeze --undo` allows them again"
    } else {
        "moves for balance are on"
    };
    report(json, version, line)
}

fn report(json: bool, version: TargetVersion, line: &str) -> anyhow::Result<Exit> {
    if json {
        print_json(&serde_json::json!({ "version": version.as_raw(), "done": line }))?;
    } else {
        outln!("{line}");
    }
    Ok(Exit::Done)
}
