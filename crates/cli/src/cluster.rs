//! Opens the cluster that the arguments name.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_cluster::{
    Cluster, ClusterOpenError, ClusterOptions, FoundCluster, Layout, TextShards, find_cluster,
};
use shardwright_demo::Counters;
use shardwright_engine::TokioEnv;
use shardwright_placement::{JoinRefused, ShardCount, Sharding};

use crate::arguments::cluster::ClusterChoice;
use crate::store::{AnyStore, OpenMode, OpenStore as _, StoreAddress};

/// The cluster protocol on any store.
pub(crate) type AnyCluster = Cluster;

/// A node stops serving when a fifth of its session TTL is left.
const MARGIN_DIVISOR: u32 = 5;

/// Opens a cluster. [`OpenMode::Write`] creates a missing cluster, [`OpenMode::Read`] fails.
pub(crate) async fn open(
    address: &StoreAddress,
    choice: &ClusterChoice,
    mode: OpenMode,
) -> anyhow::Result<AnyCluster> {
    anyhow::ensure!(
        *address != StoreAddress::Memory,
        "a cluster needs a store that its processes share; use --store file:FOLDER or etcd://..."
    );
    // Keys of existing clusters begin with their prefix. An etcd store puts its namespace before
    // every key, so the first character of the prefix becomes the namespace.
    let shared = address.is_shared();
    let (namespace, prefix) = match &choice.seed_format {
        Some(prefix) if shared => {
            let first = prefix.chars().next().map_or(0, char::len_utf8);
            let (namespace, rest) = prefix.split_at(first);
            (Some(namespace), Some(rest.to_owned()))
        }
        prefix => (None, prefix.clone()),
    };
    let (store, keys) = address.connect_for(mode, "clusters", namespace).await?;
    let sharding = sharding_of(choice, Sharding::default());
    let mut options = ClusterOptions::new(choice.name.clone(), choice.behaviour.config(sharding));
    options.keys = keys;
    options.layout = prefix.map_or(Layout::Native, |prefix| Layout::Seed { prefix });
    options.session_ttl = choice.behaviour.session_ttl();
    options.session_margin = options.session_ttl / MARGIN_DIVISOR;
    let default = match find_cluster(&store, &options).await? {
        Some(FoundCluster::Decided(plan)) => plan.sharding,
        Some(FoundCluster::Text(_)) if choice.shards.is_some() => Sharding::default(),
        Some(FoundCluster::Text(shards)) => sharding_in_text(shards, mode)?,
        None => Sharding::default(),
    };
    options.config.sharding = sharding_of(choice, default);
    let env = TokioEnv::current().context("no tokio runtime")?;
    let opened = match mode {
        OpenMode::Read => Cluster::open_existing(store, env, options).await,
        OpenMode::Write => Cluster::open(store, env, options).await,
    };
    opened.map_err(|error| match (error, &choice.seed_format) {
        (ClusterOpenError::NotThere, Some(prefix)) => anyhow::anyhow!(
            "no cluster below {prefix} in this store; start a node to create it: \
             `shardwright node --seed-format {prefix}`"
        ),
        (ClusterOpenError::NotThere, None) => anyhow::anyhow!(
            "no cluster {name} in this store; start a node to create it: \
             `shardwright node --cluster {name}`",
            name = choice.name.as_str()
        ),
        (error, prefix) => {
            let name = prefix.as_deref().unwrap_or(choice.name.as_str());
            match remedy(&error) {
                Some(remedy) => anyhow::anyhow!("cannot open cluster {name}: {error}; {remedy}"),
                None => anyhow::Error::new(error).context(format!("cannot open cluster {name}")),
            }
        }
    })
}

/// The flags to change after a refusal, if they are the cause.
fn remedy(error: &ClusterOpenError) -> Option<String> {
    match error {
        ClusterOpenError::Join(JoinRefused::NumShards { cluster, .. }) => {
            Some(format!("omit --shards or use --shards {cluster}"))
        }
        ClusterOpenError::Join(JoinRefused::Hash { cluster, .. }) => {
            Some(format!("omit --hash or use --hash {}", cluster.name()))
        }
        ClusterOpenError::MoreShards { .. } => {
            Some("use --shards N with the value that its other nodes use".to_owned())
        }
        ClusterOpenError::Layout { ours: Layout::Native, .. } => {
            Some("add --seed-format PREFIX".to_owned())
        }
        ClusterOpenError::Layout { ours: Layout::Seed { .. }, .. } => {
            Some("omit --seed-format".to_owned())
        }
        _ => None,
    }
}

/// The counter objects of a cluster.
pub(crate) fn counters(cluster: &AnyCluster) -> Counters<AnyStore> {
    Counters::new(Arc::new(cluster.store().clone()), &cluster.options().identity())
}

/// The sharding from the arguments, with defaults for what they leave out.
fn sharding_of(choice: &ClusterChoice, default: Sharding) -> Sharding {
    Sharding {
        num_shards: choice.shards.unwrap_or(default.num_shards),
        hash: choice.hash.unwrap_or(default.hash),
    }
}

/// Infers the number of shards of a cluster in the text format from its keys.
///
/// Other nodes may still be writing their keys. A process that only reads may trust a complete set
/// of keys. A process that takes part stores the number permanently, so it trusts the default
/// number only.
fn sharding_in_text(shards: TextShards, mode: OpenMode) -> anyhow::Result<Sharding> {
    let TextShards { at_least, is_whole } = shards;
    let is_certain = match mode {
        OpenMode::Read => is_whole,
        OpenMode::Write => is_whole && at_least == ShardCount::DEFAULT,
    };
    anyhow::ensure!(
        is_certain,
        "the cluster has at least {at_least} shards, but their exact number is not stored; give \
         --shards N with the value that its other nodes use"
    );
    Ok(Sharding { num_shards: at_least, ..Sharding::default() })
}

#[cfg(test)]
mod tests {
    use shardwright_cluster::records::ClusterFormat;

    use super::*;

    #[test]
    fn refusals_name_the_flag_to_change() {
        let (cluster, ours) = (ShardCount::DEFAULT, ShardCount::try_new(64).unwrap());
        let shards = ClusterOpenError::Join(JoinRefused::NumShards { cluster, ours });
        assert_eq!(remedy(&shards).unwrap(), "omit --shards or use --shards 8192");
        let ours = Layout::Seed { prefix: "/goverse".to_owned() };
        let format = ClusterOpenError::Layout { cluster: ClusterFormat::Native, ours };
        assert_eq!(remedy(&format).unwrap(), "omit --seed-format");
        assert_eq!(remedy(&ClusterOpenError::NotThere), None);
    }
}
