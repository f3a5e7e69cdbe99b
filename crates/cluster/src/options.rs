//! How a process takes part in a cluster, and which clusters there are.

use std::collections::BTreeSet;
use std::time::Duration;

use shardwright_contracts::InfraError;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::listing;
use shardwright_engine::setup::load;
use shardwright_placement::{ClusterConfig, ConfigError, ShardCount};
use shardwright_store::AnyStore;

use crate::keys::{ClusterKey, ClusterKeys, ClusterName, escaped};
use crate::records::ClusterPlanRecord;

/// How targets, claims, members and the leader are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// As records under the keyspace of the cluster.
    #[default]
    Native,
    /// As the text of existing clusters.
    Seed {
        /// What their keys begin with, without a slash at the end.
        prefix: String,
    },
}

/// How a process takes part in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Which cluster. One that is stored as text is known by its prefix alone.
    pub name: ClusterName,
    /// What its keys begin with.
    pub keys: Keyspace,
    /// How it is stored.
    pub layout: Layout,
    /// How it behaves.
    pub config: ClusterConfig,
    /// How long a member outlives its last sign of life.
    pub session_ttl: Duration,
    /// How long before that a node stops serving, at the latest.
    pub session_margin: Duration,
    /// How often something is decided anew because something else was stored in between.
    pub conflict_retries: u32,
    /// How many claims, releases or targets are sent to the store at the same time.
    pub commits_in_flight: usize,
    /// How long a node that joins waits for an earlier life of its own to end.
    pub join_patience: Duration,
}

/// What options cannot mean.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The configuration makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing would be left of the session, or nothing of the margin.
    #[error("session_margin must be above zero and below half of session_ttl")]
    Margin,
    /// Nothing would ever be sent.
    #[error("commits_in_flight must be at least 1")]
    NoCommits,
    /// The text would be stored among records, or records among the text.
    #[error("the prefix of the text and the keys of the cluster must be apart")]
    Mixed,
}

impl ClusterOptions {
    /// The defaults for a cluster.
    #[must_use]
    pub fn new(name: ClusterName, config: ClusterConfig) -> Self {
        Self {
            name,
            keys: Keyspace::default(),
            layout: Layout::default(),
            config,
            session_ttl: Duration::from_secs(10),
            session_margin: Duration::from_secs(2),
            conflict_retries: 16,
            commits_in_flight: 256,
            join_patience: Duration::from_secs(30),
        }
    }

    /// Whether they make sense together.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.config.validate()?;
        let half = self.session_ttl / 2;
        if self.session_margin.is_zero() || self.session_margin >= half {
            return Err(OptionsError::Margin);
        }
        if self.commits_in_flight == 0 {
            return Err(OptionsError::NoCommits);
        }
        self.cluster_keys().map(|_| ())
    }

    /// What tells the cluster from others in the same store, as one part of a key. One that is kept
    /// as text is whatever is below its prefix, however it is called; no name has a colon.
    #[must_use]
    pub fn identity(&self) -> String {
        match &self.layout {
            Layout::Native => self.name.to_string(),
            Layout::Seed { prefix } => format!("text:{}", escaped(prefix)),
        }
    }

    /// Under which keys the cluster is stored.
    pub fn cluster_keys(&self) -> Result<ClusterKeys, OptionsError> {
        match &self.layout {
            Layout::Native => Ok(ClusterKeys::new(&self.keys, &self.name)),
            Layout::Seed { prefix } => {
                ClusterKeys::with_text(&self.keys, prefix).ok_or(OptionsError::Mixed)
            }
        }
    }
}

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
