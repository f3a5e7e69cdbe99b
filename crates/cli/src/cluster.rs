//! Opening clusters, as they were chosen.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_engine::TokioEnv;
use shardwright_engine::cluster::{Cluster, ClusterOptions, Layout, find_plan};
use shardwright_placement::Sharding;

use crate::arguments::cluster::ClusterChoice;
use crate::store::{AnyStore, Purpose, StoreAddress};

/// The cluster protocol on whichever store was chosen.
pub(crate) type AnyCluster = Cluster<Arc<AnyStore>, TokioEnv>;

/// How much of a session is left when a node stops serving, as a part of it.
const MARGIN: u32 = 5;

/// Opens a cluster. One that is only looked at must be there already; else it is made.
pub(crate) async fn open(
    address: &StoreAddress,
    choice: &ClusterChoice,
    purpose: Purpose,
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
    let (store, keys) = address.connect(purpose, "clusters", namespace).await?;
    let store = Arc::new(store);
    let sharding = Sharding {
        num_shards: choice.shards.unwrap_or_default(),
        hash: choice.hash.unwrap_or_default(),
    };
    let mut options = ClusterOptions::new(choice.name.clone(), choice.behaviour.config(sharding));
    options.keys = keys;
    options.layout = prefix.map_or(Layout::Native, |prefix| Layout::Seed { prefix });
    options.session_ttl = choice.behaviour.session_ttl();
    options.session_margin = options.session_ttl / MARGIN;
    let stored = find_plan(&store, &options).await?;
    match stored {
        Some(plan) => {
            let Sharding { num_shards, hash } = plan.sharding;
            options.config.sharding = Sharding {
                num_shards: choice.shards.unwrap_or(num_shards),
                hash: choice.hash.unwrap_or(hash),
            };
        }
        None if purpose == Purpose::Look && choice.seed_format.is_none() => anyhow::bail!(
            "there is no cluster {name} here; a node makes it: `shardwright node --cluster {name}`",
            name = choice.name.as_str()
        ),
        None => {}
    }
    let env = TokioEnv::current().context("there is no runtime")?;
    let opened = Cluster::open(store, env, options).await;
    opened.with_context(|| format!("the cluster {} cannot be opened", choice.name.as_str()))
}
