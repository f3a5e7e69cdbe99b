use std::io;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use shardwright_cluster::{Cluster, ClusterName, ClusterOptions, wait_for_cluster};
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{TokioEnv, watch};
use shardwright_node::{NodeState, RetryNotices};
use shardwright_placement::{ClusterConfig, NodeAddress, ShardCount};
use shardwright_store::{AnyStore, StoreAddress};
use tokio::net::TcpListener;

/// The options of both programs.
#[derive(Args, Clone, Debug)]
pub struct ServerArguments {
    /// Store URL: `file:FOLDER` or `etcd://HOST:PORT[,…]`.
    #[arg(long, default_value = "file:counters")]
    pub store: StoreAddress,
    /// Name of the cluster.
    #[arg(long, default_value = "counters")]
    pub cluster: String,
    /// Listen for calls on HOST:PORT. Port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Address at which other processes reach this one [default: the listen address].
    #[arg(long)]
    pub address: Option<String>,
    /// Number of shards of a new cluster.
    #[arg(long, default_value_t = 64)]
    pub shards: u32,
    /// Place shards after the membership has been stable for so many milliseconds.
    #[arg(long, default_value_t = 1_000)]
    pub stability_ms: u64,
}

impl ServerArguments {
    /// Opens the store.
    pub async fn connect(&self) -> anyhow::Result<AnyStore> {
        anyhow::ensure!(
            self.store != StoreAddress::Memory,
            "nodes and gates need a store that they share; use --store file:FOLDER or etcd://..."
        );
        Ok(self.store.connect(None).await?)
    }

    /// Opens the cluster. Creates it if it does not exist. Call it when the node listens: the
    /// creator decides on the number of shards for good.
    pub async fn open(&self, store: AnyStore) -> anyhow::Result<Cluster> {
        let env = TokioEnv::current().context("no tokio runtime")?;
        Ok(Cluster::open(store, env, self.options()?).await?)
    }

    /// Waits until a node has created the cluster, and opens it.
    pub async fn open_existing(&self, store: AnyStore) -> anyhow::Result<Cluster> {
        let env = TokioEnv::current().context("no tokio runtime")?;
        let options = self.options()?;
        wait_for_cluster(&store, &env, &options).await?;
        Ok(Cluster::open_existing(store, env, options).await?)
    }

    fn options(&self) -> anyhow::Result<ClusterOptions> {
        let mut config = ClusterConfig::with_num_shards(ShardCount::try_new(self.shards)?);
        config.cluster_state_stability_duration_ms = self.stability_ms;
        let mut options = ClusterOptions::new(ClusterName::parse(&self.cluster)?, config);
        options.keys = Keyspace::of_store(&self.store, None);
        Ok(options)
    }

    /// Listens, and returns the address for other processes.
    pub async fn listen(&self) -> anyhow::Result<(TcpListener, NodeAddress)> {
        let listener = TcpListener::bind(&self.listen).await?;
        let address = match &self.address {
            Some(address) => NodeAddress::parse(address)?,
            None => {
                let local = listener.local_addr()?;
                anyhow::ensure!(
                    !local.ip().is_unspecified(),
                    "{local} is every address of this machine; set --address to the one to call"
                );
                NodeAddress::parse(&local.to_string())?
            }
        };
        Ok((listener, address))
    }
}

/// Waits for the stop signal. Returns an error if the node fails before it.
pub async fn serve_until(
    stop: impl Future<Output = io::Result<()>>,
    mut state: watch::Receiver<NodeState>,
) -> anyhow::Result<()> {
    tokio::select! {
        biased;
        stopped = stop => Ok(stopped?),
        _ = state.wait_for(|state| *state == NodeState::Failed) => {
            anyhow::bail!("the node has failed; other nodes claim its shards when its session ends")
        }
    }
}

/// Reports each activity that a node or a gate has to retry.
pub async fn follow_notices(mut notices: watch::Receiver<RetryNotices>, report: impl Fn(String)) {
    let mut reported = 0;
    loop {
        let new: Vec<_> = notices.borrow_and_update().after(reported).cloned().collect();
        for notice in new {
            reported = notice.number;
            let (what, times, why) = (notice.activity.name(), notice.times, notice.why);
            report(format!("failed {times} times to {what}: {why}"));
        }
        if notices.changed().await.is_err() {
            return;
        }
    }
}

/// How long a server keeps answering after it has handed over its shards. Gates may still have to
/// learn of the new owners.
pub const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn a_failed_node_does_not_wait_for_a_signal() {
        let (states, state) = watch::channel(NodeState::Serving);
        assert!(serve_until(ready(Ok(())), state.clone()).await.is_ok());
        states.send_replace(NodeState::Failed);
        assert!(serve_until(pending(), state).await.is_err());
    }
}
