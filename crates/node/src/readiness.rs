//! Whether a process should get calls.

use std::time::Duration;

use shardwright_cluster::{Cluster, ClusterKey};
use shardwright_contracts::Env;
use shardwright_store::Store as _;
use tokio::sync::Mutex;

use crate::waiting::within;

/// Why a process should get no calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unready {
    /// The process has not joined its cluster yet.
    #[error("the process has not joined its cluster yet")]
    Starting,
    /// The store does not answer.
    #[error("the store does not answer")]
    Store,
    /// The session of the process in the cluster may have ended.
    #[error("the session in the cluster may have ended")]
    Session,
}

const TIMEOUT: Duration = Duration::from_secs(1);
/// How long a result is valid, so that many requests cause few reads.
const FRESH: Duration = Duration::from_secs(1);

/// Checks whether the store answers.
pub(crate) struct StoreProbe {
    cluster: Cluster,
    last: Mutex<Option<(Duration, bool)>>,
}

impl StoreProbe {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, last: Mutex::new(None) }
    }

    /// Reads from the store, unless another check has just done so.
    pub(crate) async fn check(&self) -> Result<(), Unready> {
        let mut last = self.last.lock().await;
        let env = self.cluster.env();
        let now = env.monotonic();
        let fresh = last.filter(|(at, _)| now.saturating_sub(*at) < FRESH);
        let answers = match fresh {
            Some((_, answers)) => answers,
            None => within(&**env, now.saturating_add(TIMEOUT), self.reads()).await == Some(true),
        };
        *last = fresh.or_else(|| Some((env.monotonic(), answers)));
        if answers { Ok(()) } else { Err(Unready::Store) }
    }

    async fn reads(&self) -> bool {
        let Ok(keys) = self.cluster.options().cluster_keys() else { return false };
        self.cluster.store().load(&[keys.key(&ClusterKey::Leader)]).await.is_ok()
    }
}
