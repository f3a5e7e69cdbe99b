use shardwright_coordination::InfraError;
use shardwright_store::Store;

use super::options::{ClusterOptions, OptionsError};
use crate::codec::ClusterPlan;
use crate::coordinator::load;
use crate::keyspace::ClusterKey;

/// What was decided when a cluster was made, for whoever wants to look at it without making it or
/// knowing it beforehand. None if there is no such cluster, or if nobody has told yet how many
/// shards one has that is stored as text.
pub async fn find_plan(
    store: &impl Store,
    options: &ClusterOptions,
) -> Result<Option<ClusterPlan>, FindError> {
    let key = options.cluster_keys()?.key(&ClusterKey::Plan);
    Ok(load::<ClusterPlan>(store, &key).await?.map(|(plan, _)| plan))
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
