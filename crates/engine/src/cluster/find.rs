//! What is decided of a cluster before anybody takes part in it.

use shardwright_coordination::InfraError;
use shardwright_placement::{ShardCount, ShardHash, Sharding};
use shardwright_store::Store;

use super::options::{ClusterOptions, OptionsError};
use crate::codec::{ClusterFormat, ClusterPlan};
use crate::coordinator::load;
use crate::keyspace::{ClusterKey, ClusterKeys};
use crate::listing;

/// What was decided when a cluster was made, for whoever wants to look at it without making it or
/// knowing it beforehand. None if there is no such cluster.
pub async fn find_plan(
    store: &impl Store,
    options: &ClusterOptions,
) -> Result<Option<ClusterPlan>, FindError> {
    Ok(decided(store, &options.cluster_keys()?).await?)
}

/// Why nobody knows whether there is a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The options name no keys.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The store failed, or what is there cannot be read.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// What the record of a cluster says, or else the keys of one that others made and stored as text.
pub(super) async fn decided(
    store: &impl Store,
    keys: &ClusterKeys,
) -> Result<Option<ClusterPlan>, InfraError> {
    if let Some((plan, _)) = load::<ClusterPlan>(store, &keys.key(&ClusterKey::Plan)).await? {
        return Ok(Some(plan));
    }
    let num_shards = shards_in_text(store, keys).await?;
    Ok(num_shards.map(|num_shards| ClusterPlan {
        // They all hash so.
        sharding: Sharding { hash: ShardHash::Fnv1a32, num_shards },
        format: ClusterFormat::Seed,
    }))
}

/// Existing clusters have a key for every shard, and nothing else says how many there are.
async fn shards_in_text(
    store: &impl Store,
    keys: &ClusterKeys,
) -> Result<Option<ShardCount>, InfraError> {
    let Some(text) = keys.ranges().into_iter().nth(1) else { return Ok(None) };
    let (_, entries) = listing::list(store, &text, "cluster.open").await?;
    let shards = entries.iter().filter_map(|(key, _)| match keys.parse(key) {
        Some(ClusterKey::Shard(shard)) => u32::try_from(shard.as_raw()).ok(),
        _ => None,
    });
    let last = shards.max();
    Ok(last.and_then(|last| ShardCount::try_new(last.saturating_add(1)).ok()))
}
