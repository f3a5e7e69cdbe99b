//! The background work of a node. It serves while its session lives, leads if there is no leader,
//! claims and hands over shards, and joins again when its session has ended.
//!
//! Everything of one session is one future, so that it ends as a whole.

mod auto_load;
mod claims;
mod handover;
mod leader;
mod leaving;
mod session_guard;
mod shards;
mod work;

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use shardwright_cluster::{Cluster, NodeMembership};
use shardwright_contracts::Env;
use shardwright_engine::watch;
use shardwright_placement::NodeAddress;

use self::leaving::Leaving;
pub(crate) use self::session_guard::join_again;
use crate::context::Caller;
use crate::host::{HostParts, ObjectHost};
use crate::node::CurrentHost;
use crate::node::{DesiredState, NodeState};
use crate::notices::{Activity, NoticeLog};
use crate::object::{Deactivation, ObjectTypes};
use crate::options::{HostOptions, NodeOptions};
use crate::router::Router;
use crate::transport::BoxFuture;
use crate::waiting::Queue;

/// The pause after a failed attempt to claim, to lead, or to announce that the node leaves.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Runs a node.
pub(crate) struct Agent {
    pub(crate) cluster: Cluster,
    pub(crate) address: NodeAddress,
    pub(crate) types: ObjectTypes,
    pub(crate) options: NodeOptions,
    pub(crate) router: Weak<Router>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) local: Arc<CurrentHost>,
    pub(crate) desired: watch::Receiver<DesiredState>,
    pub(crate) state: watch::Sender<NodeState>,
    pub(crate) notice_log: Arc<NoticeLog>,
}

/// Lets the compiler see that the future is `Send`.
fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// The agent in one session.
struct SessionAgent {
    agent: Arc<Agent>,
    membership: NodeMembership,
    host: Arc<ObjectHost>,
    /// How the node leaves.
    leaving: watch::Sender<Leaving>,
}

impl Clone for SessionAgent {
    fn clone(&self) -> Self {
        let (agent, host) = (Arc::clone(&self.agent), Arc::clone(&self.host));
        let (membership, leaving) = (self.membership.clone(), self.leaving.clone());
        Self { agent, membership, host, leaving }
    }
}

/// Why the agent no longer serves a session.
enum EndReason {
    /// Its session has ended.
    Lost,
    /// Everything was handed over.
    HandedOver,
    /// The node was to leave, and the store refused to release its shards.
    NotReleased,
    /// The node was dropped.
    Dropped,
}

impl Agent {
    /// Runs the node to its end. After a panic it serves nothing, and the session expires as after
    /// a crash.
    pub(crate) async fn run(self: Arc<Self>, membership: NodeMembership) {
        let served = AssertUnwindSafe(self.serve_sessions(membership)).catch_unwind().await;
        if let Err(panic) = served {
            if let Some((_, host)) = self.local.now() {
                host.serving().end();
            }
            self.local.set(None);
            self.state.send_replace(NodeState::Failed);
            resume_unwind(panic);
        }
    }

    /// Serves one session after another.
    async fn serve_sessions(self: &Arc<Self>, mut membership: NodeMembership) {
        loop {
            let Some((_, host)) = self.local.now() else { return };
            let (agent, of) = (Arc::clone(self), membership.clone());
            let leaving = watch::Sender::new(Leaving::No);
            let session = SessionAgent { agent, membership: of, host: Arc::clone(&host), leaving };
            let end = session.run().await;
            drop(session);
            self.local.set(None);
            match end {
                EndReason::Dropped => {
                    host.serving().end();
                    return;
                }
                EndReason::HandedOver => {
                    return self.leave(&membership, &host, NodeState::Left).await;
                }
                EndReason::NotReleased => {
                    return self.leave(&membership, &host, NodeState::Gone).await;
                }
                EndReason::Lost => {
                    self.state.send_replace(NodeState::Rejoining);
                    // Deactivation may take long, and rejoining does not wait for it.
                    self.cluster.env().spawn(boxed(host.end()));
                }
            }
            drop(membership);
            let Some(next) = self.rejoin().await else { return };
            membership = next;
            self.begin(&membership);
            self.state.send_replace(NodeState::Serving);
        }
    }

    /// Starts a session: calls are answered from now on.
    pub(crate) fn begin(&self, membership: &NodeMembership) {
        let serves = membership.clone();
        let caller: Weak<dyn Caller> = self.router.clone();
        let host = ObjectHost::new(HostParts {
            env: Arc::clone(self.cluster.env()),
            own: self.address.clone(),
            sharding: self.cluster.config().sharding,
            options: HostOptions { strict: self.cluster.config().strict, ..self.options.host },
            types: self.types.clone(),
            may_serve: Arc::new(move || serves.may_serve()),
            queue: Arc::clone(&self.queue),
            caller,
            auto_load: self.options.auto_load.as_slice().into(),
            notice_log: Arc::clone(&self.notice_log),
        });
        self.local.set(Some((membership.holder().clone(), Arc::new(host))));
    }

    /// Waits until the `Node` was dropped.
    async fn dropped(&self) {
        let mut desired = self.desired.clone();
        while desired.changed().await.is_ok() {}
    }

    /// Joins with a new session. Returns `None` if the node is to drain or was dropped, or if the
    /// cluster was deleted.
    async fn rejoin(&self) -> Option<NodeMembership> {
        let mut desired = self.desired.clone();
        let (address, weight) = (&self.address, self.options.weight);
        let join = || self.cluster.join(address.clone(), weight);
        let joining = join_again(&self.cluster, &self.notice_log, join);
        tokio::select! {
            biased;
            drained = desired.wait_for(|desired| *desired == DesiredState::Drain) => {
                if drained.is_ok() {
                    self.state.send_replace(NodeState::Gone);
                }
                None
            }
            joined = joining => {
                if joined.is_none() {
                    self.state.send_replace(NodeState::Deleted);
                }
                joined
            }
        }
    }

    /// Removes the node from the cluster.
    async fn leave(&self, membership: &NodeMembership, host: &ObjectHost, state: NodeState) {
        boxed(host.end()).await;
        // If a commit fails, the end of the session has the same effect.
        let _ = membership.resign().await;
        let _ = membership.leave().await;
        self.state.send_replace(state);
    }
}

impl SessionAgent {
    /// Serves the session to its end.
    async fn run(&self) -> EndReason {
        tokio::select! {
            biased;
            () = self.agent.dropped() => EndReason::Dropped,
            () = self.watch_session() => EndReason::Lost,
            end = boxed(self.manage_shards()) => end,
            () = boxed(self.lead()) => EndReason::Lost,
            () = boxed(self.host.evict_idle()) => EndReason::Lost,
        }
    }

    fn env(&self) -> &Arc<dyn Env> {
        self.agent.cluster.env()
    }

    fn wants_to_leave(&self) -> bool {
        *self.agent.desired.borrow() == DesiredState::Drain
    }

    /// Deactivates the objects of the node itself, once no shard is left.
    async fn empty_own_slot(&self) {
        let slot = self.host.own_slot();
        slot.set_admitting(false);
        slot.idle().await;
        let dropped = self.host.evict(slot, Deactivation::HandedOver).await;
        self.report_dropped(dropped, format_args!("the node itself"));
    }

    /// Reports objects that were dropped before their deactivation ended.
    fn report_dropped(&self, dropped: u64, whose: fmt::Arguments<'_>) {
        if dropped > 0 {
            let what = format!("{dropped} objects of {whose}");
            let why = format!("{what} were dropped before they were deactivated");
            self.agent.notice_log.record(Activity::Deactivate, why);
        }
    }
}
