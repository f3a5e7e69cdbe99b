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

/// An entrance to the cluster: routes calls of clients to the nodes that have the objects. It owns
/// nothing, so any number of gates may come and go.
pub struct Gate {
    router: Arc<Router>,
    /// When this goes, so does the gate's entry in the cluster.
    leave: watch::Sender<bool>,
    notice_log: Arc<NoticeLog>,
}

impl Gate {
    /// Opens a gate, and lets the cluster know of it.
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

    /// Brings a call to its object and the answer back.
    ///
    /// While the object's shard is on its way from one node to another, the call is held for as
    /// long as it has time. An unknown outcome is returned as such, and the call is not retried.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        self.router.route(call).await
    }

    /// What a server at this gate needs.
    #[must_use]
    pub fn service(&self) -> Arc<dyn CallService> {
        Arc::new(GateService(Arc::clone(&self.router)))
    }

    /// How many calls are held just now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.router.queue().len()
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.router.cluster()
    }

    /// What goes wrong again and again, now and from now on.
    #[must_use]
    pub fn notices(&self) -> watch::Receiver<RetryNotices> {
        self.notice_log.notices()
    }

    /// Takes the gate's entry out of the cluster. Calls are still answered.
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

/// Keeps the gate's entry in the cluster. Nothing depends on it: it is there to be seen.
async fn stay(
    cluster: Cluster,
    mut membership: GateMembership,
    mut leave: watch::Receiver<bool>,
    notice_log: Arc<NoticeLog>,
) {
    let address = membership.address().clone();
    loop {
        if wait_to_leave(&membership, &mut leave).await {
            // If the commit fails, the entry goes when the session ends.
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

/// Waits until the gate is to leave, or has lost its entry.
async fn wait_to_leave(membership: &GateMembership, leave: &mut watch::Receiver<bool>) -> bool {
    let mut serving = membership.serving_changes();
    tokio::select! {
        biased;
        _ = leave.wait_for(|leave| *leave) => true,
        _ = serving.wait_for(|serving| *serving == Serving::Ended) => false,
    }
}
