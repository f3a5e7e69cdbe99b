use std::sync::Arc;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::{Cluster, GateMembership, JoinError, Serving};
use shardwright_contracts::Env;
use shardwright_engine::watch;
use shardwright_placement::NodeAddress;

use crate::agent::join_again;
use crate::call::Call;
use crate::notices::{NoticeLog, RetryNotices};
use crate::options::GateOptions;
use crate::router::Router;
use crate::transport::{BoxFuture, CallService, ShardLoad, Transport};
use crate::waiting::Queue;

/// Routes calls of clients to the nodes that hold the objects. It owns nothing, so gates can be
/// added and removed at any time.
pub struct Gate {
    router: Arc<Router>,
    /// Dropping it removes the gate's entry from the cluster.
    leave: watch::Sender<bool>,
    notice_log: Arc<NoticeLog>,
}

impl Gate {
    /// Opens a gate and registers it in the cluster.
    pub async fn open(
        cluster: Cluster,
        address: NodeAddress,
        transport: Arc<dyn Transport>,
        options: GateOptions,
    ) -> Result<Self, JoinError> {
        let membership = cluster.join_gate(address).await?;
        let leave = watch::Sender::new(false);
        let notice_log = Arc::new(NoticeLog::new(Arc::clone(cluster.env())));
        let left = leave.subscribe();
        let staying = stay(cluster.clone(), membership, left, Arc::clone(&notice_log));
        cluster.env().spawn(Box::pin(staying));
        let queue = Arc::new(Queue::new(options.queue_max));
        let router = Arc::new(Router::new(cluster, transport, queue, None));
        Ok(Self { router, leave, notice_log })
    }

    /// Routes a call to its object and returns the answer.
    ///
    /// While the object's shard moves, the call is held until its timeout. An unknown outcome is
    /// returned as such, and the call is not retried.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        self.router.route(call).await
    }

    /// The service for a server at this gate.
    #[must_use]
    pub fn service(&self) -> Arc<dyn CallService> {
        Arc::new(GateService(Arc::clone(&self.router)))
    }

    /// The number of calls that are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.router.queue().len()
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.router.cluster()
    }

    /// Activities that keep failing, and new notices.
    #[must_use]
    pub fn notices(&self) -> watch::Receiver<RetryNotices> {
        self.notice_log.notices()
    }

    /// Removes the gate's entry from the cluster. Calls are still answered.
    pub fn close(&self) {
        self.leave.send_replace(true);
    }
}

struct GateService(Arc<Router>);

impl CallService for GateService {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(self.0.route(call))
    }

    fn loads(&self) -> Vec<ShardLoad> {
        Vec::new()
    }
}

/// Keeps the gate's entry in the cluster. It is for operators, and nothing depends on it.
async fn stay(
    cluster: Cluster,
    mut membership: GateMembership,
    mut leave: watch::Receiver<bool>,
    notice_log: Arc<NoticeLog>,
) {
    let address = membership.address().clone();
    loop {
        if wait_to_leave(&membership, &mut leave).await {
            // If the commit fails, the entry ends with the session.
            let _ = membership.leave().await;
            return;
        }
        let joining = join_again(&cluster, &notice_log, || cluster.join_gate(address.clone()));
        membership = tokio::select! {
            biased;
            _ = leave.wait_for(|leave| *leave) => return,
            joined = joining => joined,
        };
    }
}

/// Waits until the gate is closed, or has lost its entry.
async fn wait_to_leave(membership: &GateMembership, leave: &mut watch::Receiver<bool>) -> bool {
    let mut serving = membership.serving_changes();
    tokio::select! {
        biased;
        _ = leave.wait_for(|leave| *leave) => true,
        _ = serving.wait_for(|serving| *serving == Serving::Ended) => false,
    }
}
