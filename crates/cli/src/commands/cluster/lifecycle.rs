//! `shardwright cluster create` and `shardwright cluster delete`.

use crate::arguments::cluster::ClusterChoice;
use crate::cluster::{create as create_cluster, delete as delete_cluster};
use crate::commands::print_json;
use crate::console::outln;
use crate::exit::Exit;
use crate::store::StoreAddress;

pub(super) async fn create(
    store: &StoreAddress,
    json: bool,
    choice: &ClusterChoice,
) -> anyhow::Result<Exit> {
    let sharding = create_cluster(store, choice).await?;
    let (title, shards, hash) = (choice.title(), sharding.num_shards, sharding.hash.name());
    if json {
        let shards = shards.get();
        print_json(&serde_json::json!({ "created": title, "shards": shards, "hash": hash }))?;
    } else {
        outln!("created cluster {title}: {shards} shards, hash {hash}");
    }
    Ok(Exit::Done)
}

pub(super) async fn delete(
    store: &StoreAddress,
    json: bool,
    choice: &ClusterChoice,
) -> anyhow::Result<Exit> {
    delete_cluster(store, choice).await?;
    let title = choice.title();
    if json {
        print_json(&serde_json::json!({ "deleted": title }))?;
    } else {
        outln!("deleted cluster {title}; what its objects have stored is kept");
    }
    Ok(Exit::Done)
}
