//! Routes calls to nodes, and holds those that have no owner.

mod attempt;
mod routes;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_api::limits::MAX_TIMEOUT;
use shardwright_cluster::{Cluster, ClusterView};
use shardwright_contracts::{Env, ShardId};
use shardwright_engine::watch;

use self::attempt::{Attempt, Refusal};
use self::routes::RouteCache;
use crate::call::Call;
use crate::context::Caller;
use crate::node::CurrentHost;
use crate::transport::{BoxFuture, Transport};
use crate::waiting::within;
use crate::waiting::{Queue, QueueSlot};

/// The longest pause before a node that refused a call is tried again, although it holds the shard
/// by the cluster's state.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Routes calls by the cluster's state, and holds those whose shard is moving.
///
/// A call is resent only if it surely was not executed. The router learns of moves from the
/// cluster's changes, not by trying other nodes. It tries a node that refused a call again when the
/// shard has changed, or after a pause.
pub(crate) struct Router {
    cluster: Cluster,
    transport: Arc<dyn Transport>,
    queue: Arc<Queue>,
    /// The objects of this process, if it is a node.
    local: Option<Arc<CurrentHost>>,
    routes: RouteCache,
}

/// The state of a waiting call.
struct Waiting {
    deadline: Duration,
    changes: Option<watch::Receiver<Arc<ClusterView>>>,
    queue_slot: Option<QueueSlot>,
    /// The last refusal.
    refusal: Option<Refusal>,
    /// When the node that refused is tried again, even without a change.
    retry_at: Duration,
    pause: Duration,
    /// Why it waits.
    why: CallError,
}

impl Router {
    pub(crate) fn new(
        cluster: Cluster,
        transport: Arc<dyn Transport>,
        queue: Arc<Queue>,
        local: Option<Arc<CurrentHost>>,
    ) -> Self {
        Self { cluster, transport, queue, local, routes: RouteCache::default() }
    }

    pub(crate) const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Routes a call to its object and returns the answer.
    pub(crate) async fn route(&self, call: Call) -> Result<Bytes, CallError> {
        let timeout = call.timeout.min(MAX_TIMEOUT);
        let deadline = self.cluster.env().monotonic().saturating_add(timeout);
        call.check()?;
        let mut waiting = Waiting {
            deadline,
            changes: None,
            queue_slot: None,
            refusal: None,
            retry_at: Duration::MAX,
            pause: Duration::from_millis(self.cluster.config().moving_retry_ms),
            why: CallError::Late,
        };
        loop {
            let view = match &mut waiting.changes {
                Some(changes) => Arc::clone(&changes.borrow_and_update()),
                None => self.cluster.view(),
            };
            let at_most = match self.attempt(&view, &call, &mut waiting).await {
                Attempt::Done(answer) => return answer,
                Attempt::Refused(refusal, why) => {
                    waiting.remember(refusal, why, self.cluster.env().monotonic());
                    Duration::MAX
                }
                Attempt::NotTried => Duration::MAX,
                Attempt::Nowhere { at_most, why } => {
                    waiting.why = why;
                    at_most
                }
            };
            self.wait(&view, &call, &mut waiting, at_most).await?;
        }
    }

    /// Waits until the cluster has changed since `view`, or until the time of the next retry.
    async fn wait(
        &self,
        view: &ClusterView,
        call: &Call,
        waiting: &mut Waiting,
        at_most: Duration,
    ) -> Result<(), CallError> {
        let env = self.cluster.env();
        let now = env.monotonic();
        let deadline = waiting.deadline;
        if now >= deadline {
            return Err(waiting.why.clone());
        }
        if waiting.queue_slot.is_none() {
            waiting.queue_slot = Some(self.queue.enter(call)?);
        }
        let Some(changes) = &mut waiting.changes else {
            // Later changes are received from here on. Earlier ones are in the next view.
            waiting.changes = Some(self.cluster.changes());
            return Ok(());
        };
        if changes.borrow().generation != view.generation {
            return Ok(());
        }
        let until = deadline.min(waiting.retry_at).min(now.saturating_add(at_most));
        if let Some(Err(_gone)) = within(env, until, changes.changed()).await {
            return Err(CallError::NotServing);
        }
        if env.monotonic() >= waiting.retry_at {
            (waiting.refusal, waiting.retry_at) = (None, Duration::MAX);
        }
        Ok(())
    }
}

impl Waiting {
    /// Records a refusal. The cause need not change the cluster's state, so the node is tried again
    /// after a pause, which grows.
    fn remember(&mut self, refusal: Refusal, why: CallError, now: Duration) {
        (self.refusal, self.why) = (Some(refusal), why);
        self.retry_at = now.saturating_add(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }
}

impl Caller for Router {
    fn now(&self) -> Duration {
        self.cluster.env().monotonic()
    }

    fn is_moving(&self, shard: ShardId) -> bool {
        let view = self.cluster.view();
        let Ok(info) = view.map.info(shard) else { return false };
        // A leaving node releases its shards even if no other node can take them.
        let leaves = |node: &str| view.members.get(node).is_some_and(|member| member.draining);
        info.current.is_some_and(|holder| {
            Some(holder.address) != info.target || leaves(holder.address.as_str())
        })
    }

    fn is_leaving(&self, node: &str) -> bool {
        self.cluster.view().members.get(node).is_some_and(|member| member.draining)
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(self.route(call))
    }
}
