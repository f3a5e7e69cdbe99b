//! Options of a process, and looking up a cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use shardwright_contracts::{Env, InfraError};
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::transact::Driver;
use shardwright_engine::{Operation, listing, operation};
use shardwright_placement::{ClusterConfig, ConfigError, ShardCount, ShardHash};
use shardwright_store::{AnyStore, Revision};

use super::existence::Existence;
use crate::keys::{ClusterKey, ClusterKeys, ClusterName, escaped};
use crate::records::ClusterPlanRecord;

const FIND: Operation = operation!("cluster.open");
/// Restarts of a listing that is outdated, or whose revision the store has dropped.
const LISTINGS: u32 = 8;

/// Stored format of targets, claims, members and the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// As records under the keyspace of the cluster.
    #[default]
    Native,
    /// As the text of existing clusters.
    Seed {
        /// Prefix of their keys, without a slash at the end.
        prefix: String,
    },
}

/// Options of a process in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Name of the cluster. A cluster that is stored as text is identified by its prefix alone.
    pub name: ClusterName,
    /// Keyspace of the cluster.
    pub keys: Keyspace,
    /// Stored format.
    pub layout: Layout,
    /// Configuration of the cluster.
    pub config: ClusterConfig,
    /// TTL of a member's session.
    pub session_ttl: Duration,
    /// Time before the end of the TTL at which a node stops serving.
    pub session_margin: Duration,
    /// Retries of a decision after a conflict.
    pub conflict_retries: u32,
    /// Most claims, releases or targets in flight at once.
    pub commits_in_flight: usize,
    /// Longest wait of a joining node for its earlier incarnation to end.
    pub join_patience: Duration,
}

/// Invalid options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The margin is zero, or too long for the TTL.
    #[error("session_margin must be above zero and below half of session_ttl")]
    Margin,
    /// No commit could be sent.
    #[error("commits_in_flight must be at least 1")]
    NoCommits,
    /// The text format cannot state a hash.
    #[error("a cluster that is stored as text hashes ids by fnv1a32, not by {}", .0.name())]
    TextHash(ShardHash),
    /// The ranges of the text and of the records overlap.
    #[error("the prefix of the text overlaps the keys of the cluster; choose another prefix")]
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

    /// Checks the options.
    pub fn validate(&self) -> Result<(), OptionsError> {
        self.config.validate()?;
        let half = self.session_ttl / 2;
        if self.session_margin.is_zero() || self.session_margin >= half {
            return Err(OptionsError::Margin);
        }
        if self.commits_in_flight == 0 {
            return Err(OptionsError::NoCommits);
        }
        let hash = self.config.sharding.hash;
        if self.layout != Layout::Native && hash != ShardHash::Fnv1a32 {
            return Err(OptionsError::TextHash(hash));
        }
        self.cluster_keys().map(|_| ())
    }

    /// Identifies the cluster within a store, as one part of a key. A cluster that is stored as
    /// text is identified by its prefix. The colon avoids collisions with names.
    #[must_use]
    pub fn identity(&self) -> String {
        match &self.layout {
            Layout::Native => self.name.to_string(),
            Layout::Seed { prefix } => format!("text:{}", escaped(prefix)),
        }
    }

    /// Keys of the cluster.
    pub fn cluster_keys(&self) -> Result<ClusterKeys, OptionsError> {
        match &self.layout {
            Layout::Native => Ok(ClusterKeys::new(&self.keys, &self.name)),
            Layout::Seed { prefix } => {
                ClusterKeys::with_text(&self.keys, prefix).ok_or(OptionsError::Mixed)
            }
        }
    }
}

/// An existing cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundCluster {
    /// The plan record of the cluster.
    Decided(ClusterPlanRecord),
    /// A cluster of another program, stored as text, which does not state the number of shards.
    Text(TextShards),
}

/// Shards with a key in a cluster that another program stores as text. The program may still be
/// writing the keys, or may have pinned a few shards first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextShards {
    /// The cluster has at least this many.
    pub at_least: ShardCount,
    /// Whether each of them has a key.
    pub is_whole: bool,
}

/// Looks up a cluster without creating it or knowing its sharding; none if it does not exist.
pub async fn find_cluster(
    store: &AnyStore,
    options: &ClusterOptions,
) -> Result<Option<FoundCluster>, FindError> {
    Ok(find(store, &options.cluster_keys()?).await?.1)
}

/// Waits until a cluster exists. For processes that must not create it, such as gates.
pub async fn wait_for_cluster(
    store: &AnyStore,
    env: &dyn Env,
    options: &ClusterOptions,
) -> Result<FoundCluster, FindError> {
    let keys = &options.cluster_keys()?;
    let driver = Driver::waiting(store.clone());
    let found = driver.read_until(FIND, |reads| async move {
        if reads > 0 {
            env.sleep(LOOK_INTERVAL).await;
        }
        Ok(find(store, keys).await?.1)
    });
    Ok(found.await?)
}

/// How often a process looks for a cluster that does not exist yet.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Error of looking up a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The store failed, or the plan record cannot be read.
    #[error(transparent)]
    Store(#[from] InfraError),
}

/// Returns the plan record of a cluster, or else the shards of one that another program stores as
/// text.
pub(super) async fn find(
    store: &AnyStore,
    keys: &ClusterKeys,
) -> Result<(Existence, Option<FoundCluster>), InfraError> {
    let (existence, revision) = Existence::load(store, keys, FIND).await?;
    let found = match existence.plan {
        Some((plan, _)) => Some(FoundCluster::Decided(plan)),
        // At this revision or later, so that a deletion in between has changed the existence.
        None => shards_in_text(store, keys, revision).await?.map(FoundCluster::Text),
    };
    Ok((existence, found))
}

async fn shards_in_text(
    store: &AnyStore,
    keys: &ClusterKeys,
    since: Revision,
) -> Result<Option<TextShards>, InfraError> {
    let Some(text) = keys.ranges().into_iter().nth(1) else { return Ok(None) };
    let driver = Driver::new(store.clone(), None, LISTINGS);
    let (_, entries) = listing::list_since(&driver, &text, since, FIND).await?;
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
