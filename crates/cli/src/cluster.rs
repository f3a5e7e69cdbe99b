//! Opens, creates and deletes the cluster that the arguments name.

use std::sync::Arc;

use anyhow::Context as _;
use shardwright_cluster::{
    Cluster, ClusterCreateError, ClusterDeleteError, ClusterOpenError, ClusterOptions,
    FoundCluster, Layout, TextShards, find_cluster, wait_for_cluster,
};
use shardwright_demo::Counters;
use shardwright_engine::TokioEnv;
use shardwright_placement::{JoinRefused, ShardCount, Sharding};

use crate::arguments::cluster::ClusterChoice;
use crate::serve::write_event;
use crate::store::{AnyStore, OpenMode, OpenStore as _, StoreAddress};

/// The cluster protocol on any store.
pub(crate) type AnyCluster = Cluster;

/// A node stops serving when a fifth of its session TTL is left.
const MARGIN_DIVISOR: u32 = 5;

/// What to do if the cluster does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Create it. For nodes.
    Create,
    /// Wait until a node has created it. For gates.
    Wait {
        /// Whether events are JSON.
        json: bool,
    },
    /// Report an error. For commands.
    Fail,
}

impl Missing {
    const fn mode(self) -> OpenMode {
        match self {
            Self::Create | Self::Wait { .. } => OpenMode::Write,
            Self::Fail => OpenMode::Read,
        }
    }
}

/// Opens a cluster.
pub(crate) async fn open(
    address: &StoreAddress,
    choice: &ClusterChoice,
    missing: Missing,
) -> anyhow::Result<AnyCluster> {
    let (store, mut options) = connect(address, choice, missing.mode()).await?;
    let env = TokioEnv::current().context("no tokio runtime")?;
    let mut found = find_cluster(&store, &options).await?;
    if let (None, Missing::Wait { json }) = (found, missing) {
        let title = choice.title();
        let line = format!("waiting for cluster {title}; start a node or run `cluster create`");
        write_event(json, "waiting", &line, &[("cluster", title)])?;
        found = Some(wait_for_cluster(&store, &env, &options).await?);
    }
    options.config.sharding = agreed_sharding(choice, found, missing.mode())?;
    let opened = match missing {
        Missing::Create => Cluster::open(store, env, options).await,
        Missing::Wait { .. } | Missing::Fail => Cluster::open_existing(store, env, options).await,
    };
    opened.map_err(|error| explain(error, choice))
}

/// Creates a cluster.
pub(crate) async fn create(
    address: &StoreAddress,
    choice: &ClusterChoice,
) -> anyhow::Result<Sharding> {
    let (store, mut options) = connect(address, choice, OpenMode::Write).await?;
    let found = find_cluster(&store, &options).await?;
    if let Some(FoundCluster::Text(_)) = found {
        options.config.sharding = agreed_sharding(choice, found, OpenMode::Write)?;
    }
    match Cluster::create(store, &options).await {
        Ok(()) => Ok(options.config.sharding),
        Err(ClusterCreateError::Open(error)) => Err(explain(error, choice)),
        Err(error @ ClusterCreateError::Exists { .. }) => {
            let flag = choice.flag();
            Err(anyhow::Error::new(error).context(format!(
                "cannot create cluster {}; to replace it, first run `shardwright cluster delete \
                 {flag}`",
                choice.title()
            )))
        }
    }
}

/// Deletes a cluster.
pub(crate) async fn delete(address: &StoreAddress, choice: &ClusterChoice) -> anyhow::Result<()> {
    let (store, options) = connect(address, choice, OpenMode::Read).await?;
    Cluster::delete(store, &options).await.map_err(|error| match error {
        ClusterDeleteError::NotThere => absent(choice),
        error @ ClusterDeleteError::Members(_) => anyhow::Error::new(error).context(format!(
            "cannot delete cluster {}; stop its nodes and gates, and wait for the sessions of \
             killed ones to expire",
            choice.title()
        )),
        error => anyhow::Error::new(error).context(format!("cannot delete {}", choice.title())),
    })
}

/// Connects to the store of a cluster, and returns it with the options of this process.
async fn connect(
    address: &StoreAddress,
    choice: &ClusterChoice,
    mode: OpenMode,
) -> anyhow::Result<(AnyStore, ClusterOptions)> {
    anyhow::ensure!(
        *address != StoreAddress::Memory,
        "a cluster needs a store that its processes share; use --store file:FOLDER or etcd://..."
    );
    // Keys of existing clusters begin with their prefix. An etcd store puts its namespace before
    // every key, so the first character of the prefix becomes the namespace.
    let (namespace, prefix) = match &choice.seed_format {
        Some(prefix) if address.is_shared() => {
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
    Ok((store, options))
}

/// The sharding that this process uses for an existing cluster, or for a new one.
fn agreed_sharding(
    choice: &ClusterChoice,
    found: Option<FoundCluster>,
    mode: OpenMode,
) -> anyhow::Result<Sharding> {
    let default = match found {
        Some(FoundCluster::Decided(plan)) => plan.sharding,
        Some(FoundCluster::Text(_)) if choice.shards.is_some() => Sharding::default(),
        Some(FoundCluster::Text(shards)) => sharding_in_text(shards, mode)?,
        None => Sharding::default(),
    };
    Ok(sharding_of(choice, default))
}

/// Adds the remedy to an error.
fn explain(error: ClusterOpenError, choice: &ClusterChoice) -> anyhow::Error {
    let title = choice.title();
    match (&error, remedy(&error, &choice.flag())) {
        (ClusterOpenError::NotThere, _) => absent(choice),
        (_, Some(remedy)) => anyhow::anyhow!("cannot open cluster {title}: {error}; {remedy}"),
        (_, None) => anyhow::Error::new(error).context(format!("cannot open cluster {title}")),
    }
}

fn absent(choice: &ClusterChoice) -> anyhow::Error {
    let (title, flag) = (choice.title(), choice.flag());
    let place = if choice.seed_format.is_some() { "below " } else { "" };
    anyhow::anyhow!(
        "no cluster {place}{title} in this store; create it with `shardwright cluster create \
         {flag}`, or start a node: `shardwright node {flag}`"
    )
}

/// What to change after a refusal, if a flag or the remains of a cluster are the cause.
fn remedy(error: &ClusterOpenError, flag: &str) -> Option<String> {
    let delete = format!("`shardwright cluster delete {flag}`");
    let remedy = match error {
        ClusterOpenError::Join(JoinRefused::NumShards { cluster, .. }) => {
            format!("use --shards {cluster}, or delete the cluster with {delete}")
        }
        ClusterOpenError::Join(JoinRefused::Hash { cluster, .. }) => {
            format!("use --hash {}, or delete the cluster with {delete}", cluster.name())
        }
        ClusterOpenError::MoreShards { .. } => {
            "use --shards N with the value that its other nodes use".to_owned()
        }
        ClusterOpenError::Layout { ours: Layout::Native, .. } => {
            "add --seed-format PREFIX".to_owned()
        }
        ClusterOpenError::Layout { ours: Layout::Seed { .. }, .. } => {
            "omit --seed-format".to_owned()
        }
        ClusterOpenError::Remains => format!("run {delete} to complete it"),
        _ => return None,
    };
    Some(remedy)
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
        let remedy = |error: &_| remedy(error, "--cluster c");
        assert_eq!(
            remedy(&shards).unwrap(),
            "use --shards 8192, or delete the cluster with `shardwright cluster delete --cluster c`"
        );
        let ours = Layout::Seed { prefix: "/goverse".to_owned() };
        let format = ClusterOpenError::Layout { cluster: ClusterFormat::Native, ours };
        assert_eq!(remedy(&format).unwrap(), "omit --seed-format");
        let rest = remedy(&ClusterOpenError::Remains).unwrap();
        assert_eq!(rest, "run `shardwright cluster delete --cluster c` to complete it");
        assert_eq!(remedy(&ClusterOpenError::NotThere), None);
    }
}
