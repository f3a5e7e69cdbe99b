use std::sync::{Arc, Mutex, PoisonError};

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
use crate::readiness::{StoreProbe, Unready};
use crate::router::Router;
use crate::transport::{BoxFuture, CallService, ShardLoad, Transport};
use crate::waiting::Queue;

/// Routes calls of clients to the nodes that hold the objects. It owns nothing, so gates can be
/// added and removed at any time.
pub struct Gate {
    service: Arc<GateService>,
    /// Dropping it removes the gate's entry from the cluster.
    leave: watch::Sender<bool>,
    deleted: watch::Receiver<bool>,
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
        let session = Arc::new(Mutex::new(membership.serving_changes()));
        let notice_log = Arc::new(NoticeLog::new(Arc::clone(cluster.env())));
        let left = leave.subscribe();
        let (is_deleted, deleted) = watch::channel(false);
        let staying = Staying {
            cluster: cluster.clone(),
            session: Arc::clone(&session),
            is_deleted,
            notice_log: Arc::clone(&notice_log),
        };
        let staying = staying.run(membership, left);
        cluster.env().spawn(Box::pin(staying));
        let queue = Arc::new(Queue::new(options.held));
        let probe = StoreProbe::new(cluster.clone());
        let router = Router::new(cluster, transport, queue, None);
        let service = Arc::new(GateService { router, session, probe });
        Ok(Self { service, leave, deleted, notice_log })
    }

    /// Routes a call to its object and returns the answer.
    ///
    /// While the object's shard moves, the call is held until its timeout. An unknown outcome is
    /// returned as such, and the call is not retried.
    pub async fn call(&self, call: Call) -> Result<Bytes, CallError> {
        self.service.router.route(call).await
    }

    /// The service for a server at this gate.
    #[must_use]
    pub fn service(&self) -> Arc<dyn CallService> {
        Arc::clone(&self.service) as Arc<dyn CallService>
    }

    /// The number of calls that are held.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.service.router.queue().len()
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        self.service.router.cluster()
    }

    /// Activities that keep failing, and new notices.
    #[must_use]
    pub fn notices(&self) -> watch::Receiver<RetryNotices> {
        self.notice_log.notices()
    }

    /// Waits until the cluster was deleted. The gate then has no entry, and no call succeeds.
    pub async fn deleted(&self) {
        let mut deleted = self.deleted.clone();
        if deleted.wait_for(|deleted| *deleted).await.is_err() {
            // The gate was closed first.
            std::future::pending().await
        }
    }

    /// Removes the gate's entry from the cluster. Calls are still answered.
    pub fn close(&self) {
        self.leave.send_replace(true);
    }
}

struct GateService {
    router: Router,
    session: Arc<Session>,
    probe: StoreProbe,
}

/// The state of the current session.
type Session = Mutex<watch::Receiver<Serving>>;

impl CallService for GateService {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(self.router.route(call))
    }

    fn loads(&self) -> Result<Vec<ShardLoad>, CallError> {
        Ok(Vec::new())
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Unready>> {
        Box::pin(async move {
            let serving = {
                let session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
                *session.borrow()
            };
            match serving {
                Serving::Until(until) if self.router.cluster().env().monotonic() < until => {
                    self.probe.check().await
                }
                Serving::Until(_) | Serving::Ended => Err(Unready::Session),
            }
        })
    }
}

/// Keeps the gate's entry in the cluster. It is for operators, and no call depends on it.
struct Staying {
    cluster: Cluster,
    session: Arc<Session>,
    is_deleted: watch::Sender<bool>,
    notice_log: Arc<NoticeLog>,
}

impl Staying {
    async fn run(self, mut membership: GateMembership, mut leave: watch::Receiver<bool>) {
        let address = membership.address().clone();
        loop {
            if wait_to_leave(&membership, &mut leave).await {
                // If the commit fails, the entry ends with the session.
                let _ = membership.leave().await;
                return;
            }
            let join = || self.cluster.join_gate(address.clone());
            let joining = join_again(&self.cluster, &self.notice_log, join);
            let joined = tokio::select! {
                biased;
                _ = leave.wait_for(|leave| *leave) => return,
                joined = joining => joined,
            };
            let Some(joined) = joined else {
                self.is_deleted.send_replace(true);
                return;
            };
            membership = joined;
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            *session = membership.serving_changes();
        }
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
