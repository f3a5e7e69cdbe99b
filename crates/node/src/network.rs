use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use shardwright_api::{CallError, UnknownWhy};
use shardwright_contracts::Env;
use shardwright_engine::watch;
use shardwright_placement::NodeAddress;

use crate::call::Call;
use crate::transport::{BoxFuture, CallService, ShardLoad, Transport};
use crate::wait::within;

/// A network between nodes of one process. A call is a function call; what is lost is what somebody
/// cuts.
pub struct LocalNetwork {
    env: Arc<dyn Env>,
    lines: Mutex<BTreeMap<NodeAddress, Line>>,
}

struct Line {
    service: Arc<dyn CallService>,
    /// Goes when the line is cut.
    up: watch::Sender<()>,
}

impl LocalNetwork {
    /// A network that nobody is connected to.
    #[must_use]
    pub fn new(env: impl Env) -> Self {
        Self { env: Arc::new(env), lines: Mutex::default() }
    }

    /// Connects a node.
    pub fn connect(&self, node: NodeAddress, service: Arc<dyn CallService>) {
        let line = Line { service, up: watch::Sender::new(()) };
        self.lock().insert(node, line);
    }

    /// Cuts a node off. Nobody hears what becomes of the calls that it has.
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
                return Err(nobody(node));
            };
            let deadline = self.env.monotonic().saturating_add(call.timeout);
            let answer = within(&*self.env, deadline, service.answer(call));
            tokio::select! {
                biased;
                // It never changes: it only ends.
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
                Some((service, _)) => Ok(service.loads()),
                None => Err(nobody(node)),
            }
        })
    }
}

fn nobody(node: &NodeAddress) -> CallError {
    CallError::Unreachable { node: node.to_string(), reason: "nobody is there".to_owned() }
}
