//! Opening clusters, as they were chosen.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_engine::TokioEnv;
use shardwright_engine::cluster::{Cluster, ClusterOptions, Layout, OpenError, find_plan};
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
    if let Some(plan) = find_plan(&store, &options).await? {
        let Sharding { num_shards, hash } = plan.sharding;
        options.config.sharding = Sharding {
            num_shards: choice.shards.unwrap_or(num_shards),
            hash: choice.hash.unwrap_or(hash),
        };
    }
    let env = TokioEnv::current().context("there is no runtime")?;
    let opened = match purpose {
        Purpose::Look => Cluster::open_existing(store, env, options).await,
        Purpose::Work => Cluster::open(store, env, options).await,
    };
    opened.map_err(|error| match (error, &choice.seed_format) {
        (OpenError::NotThere, Some(prefix)) => anyhow::anyhow!(
            "there is no cluster below {prefix} here; a node makes it: \
             `shardwright node --seed-format {prefix}`"
        ),
        (OpenError::NotThere, None) => anyhow::anyhow!(
            "there is no cluster {name} here; a node makes it: `shardwright node --cluster {name}`",
            name = choice.name.as_str()
        ),
        (error, prefix) => {
            let name = prefix.as_deref().unwrap_or(choice.name.as_str());
            anyhow::Error::new(error).context(format!("the cluster {name} cannot be opened"))
        }
    })
}
