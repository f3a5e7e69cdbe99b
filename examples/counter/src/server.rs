use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use shardwright_engine::TokioEnv;
use shardwright_engine::cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_engine::keyspace::Keyspace;
use shardwright_placement::{ClusterConfig, ShardCount};
use shardwright_store::Store;

/// What both programs are told.
#[derive(Args, Clone, Debug)]
pub struct ServerArguments {
    /// Where the cluster and its counters are kept: `file:FOLDER` or `etcd://HOST:PORT[,…]`.
    #[arg(long, default_value = "file:counters")]
    pub store: StoreChoice,
    /// Which cluster.
    #[arg(long, default_value = "counters")]
    pub cluster: String,
    /// Where to receive calls; other processes must reach this address.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: String,
    /// How many shards a new cluster has.
    #[arg(long, default_value_t = 64)]
    pub shards: u32,
    /// How long the same nodes must have been there before shards are spread over them.
    #[arg(long, default_value_t = 1_000)]
    pub stability_ms: u64,
}

/// Which store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// A folder of this machine.
    File(PathBuf),
    /// The members of an etcd.
    Etcd(Vec<String>),
}

impl FromStr for StoreChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(folder) = text.strip_prefix("file:").filter(|folder| !folder.is_empty()) {
            return Ok(Self::File(folder.into()));
        }
        let members = text.strip_prefix("etcd://").filter(|members| !members.is_empty());
        let members =
            members.ok_or("a store is `file:FOLDER` or `etcd://HOST:PORT[,HOST:PORT…]`")?;
        Ok(Self::Etcd(members.split(',').map(|member| format!("http://{member}")).collect()))
    }
}

impl ServerArguments {
    /// Opens the cluster, and makes it if it is not there.
    pub async fn open<S: Store>(&self, store: S) -> anyhow::Result<Cluster<S, TokioEnv>> {
        let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(self.shards)?);
        config.cluster_state_stability_duration_ms = self.stability_ms;
        let mut options = ClusterOptions::new(ClusterName::parse(&self.cluster)?, config);
        if matches!(self.store, StoreChoice::Etcd(_)) {
            // There, all keys have a prefix already.
            options.keys = Keyspace::bare();
        }
        let env = TokioEnv::current().context("there is no runtime")?;
        Ok(Cluster::open(store, env, options).await?)
    }
}

/// How long a server goes on after it has nothing left to serve: somebody may not know yet.
pub const LINGER: Duration = Duration::from_secs(1);
