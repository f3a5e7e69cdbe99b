use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use shardwright_cluster::{Cluster, ClusterName, ClusterOptions};
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{TokioEnv, watch};
use shardwright_node::{NodeState, RetryNotices};
use shardwright_placement::{ClusterConfig, NodeAddress, ShardCount};
use shardwright_store::Store;
use tokio::net::TcpListener;

/// What both programs are told.
#[derive(Args, Clone, Debug)]
pub struct ServerArguments {
    /// Where the cluster and its counters are kept: `file:FOLDER` or `etcd://HOST:PORT[,…]`.
    #[arg(long, default_value = "file:counters")]
    pub store: StoreChoice,
    /// Which cluster.
    #[arg(long, default_value = "counters")]
    pub cluster: String,
    /// Where to receive calls.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: String,
    /// How other processes reach that [default: where it listens].
    #[arg(long)]
    pub address: Option<String>,
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
    pub async fn open<S: Store>(&self, store: S) -> anyhow::Result<Cluster> {
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

    /// Listens, and says how others reach that.
    pub async fn listen(&self) -> anyhow::Result<(TcpListener, NodeAddress)> {
        let listener = TcpListener::bind(&self.listen).await?;
        let address = match &self.address {
            Some(address) => NodeAddress::parse(address)?,
            None => {
                let local = listener.local_addr()?;
                anyhow::ensure!(
                    !local.ip().is_unspecified(),
                    "{local} is every address of this machine: say --address, how others reach it"
                );
                NodeAddress::parse(&local.to_string())?
            }
        };
        Ok((listener, address))
    }
}

/// Waits until a node is told to go. One that fails before that serves nothing any more, and
/// whoever started it has to know.
pub async fn serve_until(
    told: impl Future<Output = io::Result<()>>,
    mut state: watch::Receiver<NodeState>,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        told = told => Ok(told?),
        _ = state.wait_for(|state| *state == NodeState::Failed) => {
            anyhow::bail!("the node has failed; others get its shards when its session is over")
        }
    }
}

/// Tells what a node or a gate tries in vain, whenever there is something new to tell.
pub async fn follow_notices(mut notices: watch::Receiver<RetryNotices>, tell: impl Fn(String)) {
    let mut told = 0;
    loop {
        let new: Vec<_> = notices.borrow_and_update().after(told).cloned().collect();
        for notice in new {
            told = notice.number;
            let (what, times, why) = (notice.activity.name(), notice.times, notice.why);
            tell(format!("tries in vain to {what}, {times} times by now: {why}"));
        }
        if notices.changed().await.is_err() {
            return;
        }
    }
}

/// How long a server goes on after it has nothing left to serve: somebody may not know yet.
pub const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_node_that_fails_does_not_wait_to_be_told() {
        let (says, state) = watch::channel(NodeState::Serving);
        assert!(serve_until(ready(Ok(())), state.clone()).await.is_ok());
        says.send_replace(NodeState::Failed);
        assert!(serve_until(pending(), state).await.is_err());
    }
}
