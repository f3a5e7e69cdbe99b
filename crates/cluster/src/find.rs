//! What is decided of a cluster before anybody takes part in it.

use std::collections::BTreeSet;

use shardwright_contracts::InfraError;
use shardwright_engine::listing;
use shardwright_engine::setup::load;
use shardwright_placement::ShardCount;
use shardwright_store::AnyStore;

use super::options::{ClusterOptions, OptionsError};
use crate::keys::{ClusterKey, ClusterKeys};
use crate::records::ClusterPlanRecord;

/// What there is of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundCluster {
    /// What was decided when it was made.
    Decided(ClusterPlanRecord),
    /// Others keep it as text, in which nothing says how many shards there are.
    Text(TextShards),
}

/// What the keys of a cluster that others keep as text tell of its shards. They may be in the
/// midst of writing them, or somebody has pinned a few shards before the others are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextShards {
    /// The cluster has no fewer.
    pub at_least: ShardCount,
    /// Whether every shard up to there has its key.
    pub is_whole: bool,
}

/// What there is of a cluster, for whoever wants to look at it without making it or knowing it
/// beforehand. None if there is no such cluster.
pub async fn find_cluster(
    store: &AnyStore,
    options: &ClusterOptions,
) -> Result<Option<FoundCluster>, FindError> {
    Ok(find(store, &options.cluster_keys()?).await?)
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

/// What the record of a cluster says, or else the keys of one that others made and keep as text.
pub(super) async fn find(
    store: &AnyStore,
    keys: &ClusterKeys,
) -> Result<Option<FoundCluster>, InfraError> {
    if let Some((plan, _)) = load::<ClusterPlanRecord>(store, &keys.key(&ClusterKey::Plan)).await? {
        return Ok(Some(FoundCluster::Decided(plan)));
    }
    Ok(shards_in_text(store, keys).await?.map(FoundCluster::Text))
}

async fn shards_in_text(
    store: &AnyStore,
    keys: &ClusterKeys,
) -> Result<Option<TextShards>, InfraError> {
    let Some(text) = keys.ranges().into_iter().nth(1) else { return Ok(None) };
    let (_, entries) = listing::list(store, &text, "cluster.open").await?;
    let shards: BTreeSet<u32> = entries
        .iter()
        .filter_map(|(key, _)| match keys.parse(key) {
            Some(ClusterKey::Shard(shard)) => u32::try_from(shard.as_raw()).ok(),
            _ => None,
        })
        .collect();
    let count = shards.last().and_then(|last| ShardCount::try_new(last.saturating_add(1)).ok());
    let is_whole = |count: ShardCount| shards.len() == count.get() as usize;
    Ok(count.map(|at_least| TextShards { at_least, is_whole: is_whole(at_least) }))
}
