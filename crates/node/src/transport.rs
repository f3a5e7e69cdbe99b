use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::{CallError, UnknownWhy};
pub use shardwright_contracts::BoxFuture;
use shardwright_contracts::{Env, ShardId};
use shardwright_engine::watch;
use shardwright_placement::NodeAddress;

use crate::call::Call;
use crate::readiness::Unready;
use crate::waiting::within;

/// Sends calls to nodes.
pub trait Transport: Send + Sync + 'static {
    /// Sends a call to a node and waits for the answer, at most for the call's timeout.
    ///
    /// An error is the node's answer, or one of the transport:
    ///
    /// - [`CallError::Unreachable`] if the node surely did not get the call and will not,
    /// - [`CallError::Unknown`] if it may have.
    ///
    /// A transport sends a call once, without interpreting it.
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>>;

    /// Requests the loads of a node's shards. Used only where load is balanced.
    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>>;

    /// Called when the members have changed, so that connections to other nodes can be closed.
    fn keep_only(&self, _is_member: &dyn Fn(&NodeAddress) -> bool) {}
}

/// The smoothed load of a shard: microseconds of work per second, and a few for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLoad {
    /// The shard.
    pub shard: ShardId,
    /// The load.
    pub load: u64,
}

/// Answers the calls that reach a node, or the calls of a gate's clients.
pub trait CallService: Send + Sync + 'static {
    /// Answers a call within its time.
    ///
    /// The caller may drop the future at any time. A running call continues.
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>>;

    /// The loads of the local shards.
    fn loads(&self) -> Result<Vec<ShardLoad>, CallError>;

    /// Whether the process should get calls: the store answers, and the session is valid.
    fn ready(&self) -> BoxFuture<'_, Result<(), Unready>>;
}

/// A network between the nodes of one process. A call is a function call, and is lost only by
/// [`disconnect`](Self::disconnect).
pub struct LocalNetwork {
    env: Arc<dyn Env>,
    lines: Mutex<BTreeMap<NodeAddress, Line>>,
}

struct Line {
    service: Arc<dyn CallService>,
    /// Dropped when the node is disconnected.
    up: watch::Sender<()>,
}

impl LocalNetwork {
    /// A network without nodes.
    #[must_use]
    pub fn new(env: impl Env) -> Self {
        Self { env: Arc::new(env), lines: Mutex::default() }
    }

    /// Connects a node.
    pub fn connect(&self, node: NodeAddress, service: Arc<dyn CallService>) {
        let line = Line { service, up: watch::Sender::new(()) };
        self.lock().insert(node, line);
    }

    /// Disconnects a node. Its running calls end with an unknown outcome.
    pub fn disconnect(&self, node: &NodeAddress) {
        self.lock().remove(node);
    }

    fn line(&self, node: &NodeAddress) -> Option<(Arc<dyn CallService>, watch::Receiver<()>)> {
        let lines = self.lock();
        let line = lines.get(node)?;
        Some((Arc::clone(&line.service), line.up.subscribe()))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeAddress, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for LocalNetwork {
    fn call<'a>(
        &'a self,
        node: &'a NodeAddress,
        call: Call,
    ) -> BoxFuture<'a, Result<Bytes, CallError>> {
        Box::pin(async move {
            let Some((service, mut up)) = self.line(node) else {
                return Err(unreachable(node));
            };
            let deadline = self.env.monotonic().saturating_add(call.timeout);
            let answer = within(&*self.env, deadline, service.answer(call));
            tokio::select! {
                biased;
                // The value never changes: the channel only ends.
                _ = up.changed() => Err(CallError::Unknown(UnknownWhy::Lost)),
                answer = answer => {
                    answer.unwrap_or(Err(CallError::Unknown(UnknownWhy::Late)))
                }
            }
        })
    }

    fn loads<'a>(
        &'a self,
        node: &'a NodeAddress,
        _timeout: Duration,
    ) -> BoxFuture<'a, Result<Vec<ShardLoad>, CallError>> {
        let line = self.line(node);
        Box::pin(async move {
            match line {
                Some((service, _)) => service.loads(),
                None => Err(unreachable(node)),
            }
        })
    }
}

fn unreachable(node: &NodeAddress) -> CallError {
    CallError::Unreachable { node: node.to_string(), reason: "no such node".to_owned() }
}
