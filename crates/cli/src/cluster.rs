//! Opening clusters, as they were chosen.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_cluster::{
    Cluster, ClusterOpenError, ClusterOptions, FoundCluster, Layout, TextShards, find_cluster,
};
use shardwright_demo::Counters;
use shardwright_engine::TokioEnv;
use shardwright_placement::{ShardCount, Sharding};

use crate::arguments::cluster::ClusterChoice;
use crate::store::{AnyStore, OpenMode, OpenStore as _, StoreAddress};

/// The cluster protocol on whichever store was chosen.
pub(crate) type AnyCluster = Cluster;

/// How much of a session is left when a node stops serving, as a part of it.
const MARGIN: u32 = 5;

/// Opens a cluster. One that is only looked at must be there already; else it is made.
pub(crate) async fn open(
    address: &StoreAddress,
    choice: &ClusterChoice,
    mode: OpenMode,
) -> anyhow::Result<AnyCluster> {
    anyhow::ensure!(
        *address != StoreAddress::Memory,
        "a cluster needs a store that its processes share: say --store file:FOLDER or etcd://…"
    );
    // Existing clusters have keys that begin with their prefix and nothing else, and a store adds
    // something to every key: so it is given the first letter of the prefix for that.
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
    options.session_margin = options.session_ttl / MARGIN;
    let unsaid = match find_cluster(&store, &options).await? {
        Some(FoundCluster::Decided(plan)) => plan.sharding,
        Some(FoundCluster::Text(_)) if choice.shards.is_some() => Sharding::default(),
        Some(FoundCluster::Text(shards)) => sharding_in_text(shards, mode)?,
        None => Sharding::default(),
    };
    options.config.sharding = sharding_of(choice, unsaid);
    let env = TokioEnv::current().context("there is no runtime")?;
    let opened = match mode {
        OpenMode::Read => Cluster::open_existing(store, env, options).await,
        OpenMode::Write => Cluster::open(store, env, options).await,
    };
    opened.map_err(|error| match (error, &choice.seed_format) {
        (ClusterOpenError::NotThere, Some(prefix)) => anyhow::anyhow!(
            "there is no cluster below {prefix} here; a node makes it: \
             `shardwright node --seed-format {prefix}`"
        ),
        (ClusterOpenError::NotThere, None) => anyhow::anyhow!(
            "there is no cluster {name} here; a node makes it: `shardwright node --cluster {name}`",
            name = choice.name.as_str()
        ),
        (error, prefix) => {
            let name = prefix.as_deref().unwrap_or(choice.name.as_str());
            anyhow::Error::new(error).context(format!("the cluster {name} cannot be opened"))
        }
    })
}

/// The counters that nodes of a cluster serve.
pub(crate) fn counters(cluster: &AnyCluster) -> Counters<AnyStore> {
    Counters::new(Arc::new(cluster.store().clone()), &cluster.options().identity())
}

/// What was said of the sharding, and for the rest what is so if nothing is said.
fn sharding_of(choice: &ClusterChoice, unsaid: Sharding) -> Sharding {
    Sharding {
        num_shards: choice.shards.unwrap_or(unsaid.num_shards),
        hash: choice.hash.unwrap_or(unsaid.hash),
    }
}

/// How a cluster that others keep as text is sharded, as far as its keys can tell.
///
/// Whoever takes part decides it for good, and the others may be in the midst of writing their
/// keys: so the keys alone only tell it to one who looks.
fn sharding_in_text(shards: TextShards, mode: OpenMode) -> anyhow::Result<Sharding> {
    let TextShards { at_least, is_whole } = shards;
    let is_told = match mode {
        OpenMode::Read => is_whole,
        OpenMode::Write => is_whole && at_least == ShardCount::DEFAULT,
    };
    anyhow::ensure!(
        is_told,
        "the cluster has {at_least} shards or more, and nothing tells how many: say --shards N, \
         as its other nodes are told"
    );
    Ok(Sharding { num_shards: at_least, ..Sharding::default() })
}
