use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_cluster::ClusterView;
use shardwright_contracts::{Env, FenceEpoch};
use shardwright_placement::{NodeAddress, Retry, Route};

use super::{Router, Waiting};
use crate::call::{Call, Origin};

/// A node that refused a call, and the fence of its claim at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    node: Option<NodeAddress>,
    fence: Option<FenceEpoch>,
}

/// The result of an attempt to route a call.
pub(super) enum Attempt {
    /// An answer, or an error that a retry does not help against.
    Done(Result<Bytes, CallError>),
    /// The node refused it for this reason.
    Refused(Refusal, CallError),
    /// Nothing was sent: the node has refused the call before and nothing has changed since, or the
    /// time is over.
    NotTried,
    /// No node holds the shard.
    Nowhere {
        /// When to check again, if nothing changes.
        at_most: Duration,
        /// Why there is no holder.
        why: CallError,
    },
}

impl Router {
    /// Sends a call to the node that `view` names.
    pub(super) async fn attempt(
        &self,
        view: &ClusterView,
        call: &Call,
        waiting: &mut Waiting,
    ) -> Attempt {
        let local = self.local.as_ref().and_then(|local| local.now());
        let own = local.as_ref().map(|(holder, _)| holder);
        let routes = self.routes.get(view, own, self.cluster.config(), || {
            self.transport.keep_only(&|node| view.members.get(node.as_str()).is_some());
        });
        let route = match routes.table.route(call.target.id.borrowed()) {
            Ok(route) => route,
            Err(error) => return Attempt::Done(Err(CallError::InvalidId(error.to_string()))),
        };
        let fence = route.shard().and_then(|shard| routes.table.fence(shard));
        let node = match route {
            Route::Here { .. } => None,
            Route::There { node, .. } => Some(node.clone()),
            Route::Moving { shard, retry, .. } => {
                return nowhere(retry, |retry_after_ms| CallError::Moving {
                    shard,
                    retry_after_ms,
                });
            }
            Route::Unclaimed { shard, retry } => {
                let error = |retry_after_ms| CallError::Unclaimed { shard, retry_after_ms };
                return nowhere(retry, error);
            }
            Route::NodeGone { shard, node, retry } => {
                let node = node.to_owned();
                return nowhere(retry, |retry_after_ms| CallError::NodeGone {
                    shard,
                    node,
                    retry_after_ms,
                });
            }
        };
        let refusal = Refusal { node, fence };
        let timeout = waiting.deadline.saturating_sub(self.cluster.env().monotonic());
        if waiting.refusal.as_ref() == Some(&refusal) || timeout.is_zero() {
            return Attempt::NotTried;
        }
        // From here on the call does not wait for the shard.
        waiting.queue_slot = None;
        let call = Call { fence, timeout, ..call.clone() };
        let answer = match (&refusal.node, local) {
            (Some(node), _) => self.send(node, call, waiting.deadline).await,
            (None, Some((_, host))) => host.serve(call).await,
            (None, None) => Err(CallError::NotServing),
        };
        match answer {
            Err(error) if self.is_retried(&error) => Attempt::Refused(refusal, error),
            answer => Attempt::Done(answer),
        }
    }

    /// Sends a call to another node.
    ///
    /// If a gate's client is gone, the node may still run the call. So the call counts for the
    /// share of the client until its deadline. Otherwise a client could fill nodes with abandoned
    /// calls. The calls of a node's objects count with the call that they belong to.
    async fn send(
        &self,
        node: &NodeAddress,
        call: Call,
        deadline: Duration,
    ) -> Result<Bytes, CallError> {
        let origin = call.origin.clone().filter(|_| self.local.is_none());
        let mut sent = Sent { env: self.cluster.env(), origin, deadline };
        let answer = self.transport.call(node, call).await;
        sent.origin = None;
        answer
    }

    /// Whether a failed call is retried. It surely was not executed then.
    fn is_retried(&self, error: &CallError) -> bool {
        error.is_elsewhere() && !self.cluster.config().strict
    }
}

/// A call without an answer.
struct Sent<'a> {
    env: &'a Arc<dyn Env>,
    /// Counts the call while it exists.
    origin: Option<Arc<Origin>>,
    deadline: Duration,
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        let Some(origin) = self.origin.take() else { return };
        let (env, left) =
            (Arc::clone(self.env), self.deadline.saturating_sub(self.env.monotonic()));
        self.env.spawn(Box::pin(async move {
            env.sleep(left).await;
            drop(origin);
        }));
    }
}

fn nowhere(retry: Retry, error: impl FnOnce(u64) -> CallError) -> Attempt {
    match retry {
        Retry::Hold { at_most_ms } => {
            let at_most = Duration::from_millis(at_most_ms);
            Attempt::Nowhere { at_most, why: error(at_most_ms) }
        }
        Retry::Fail { after_ms } => Attempt::Done(Err(error(after_ms))),
    }
}
