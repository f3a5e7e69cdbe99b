use std::sync::Arc;

use bytes::Bytes;
use shardwright_api::CallError;
use shardwright_api::limits::HeldLimits;
use shardwright_contracts::Env;
use tokio::sync::watch;

use crate::call::Call;
use crate::readiness::Unready;
use crate::transport::{BoxFuture, CallService, ShardLoad};
use crate::waiting::Queue;

/// The service of a process that may have to wait before it joins its cluster. Until then it is not
/// ready. A gate holds calls meanwhile, up to their timeouts. A node refuses them, and gates retry.
///
/// A listener without a service would accept connections and answer nothing.
pub struct StartingService {
    joined: watch::Sender<Option<Arc<dyn CallService>>>,
    /// None if calls are refused.
    holding: Option<Holding>,
}

/// The held calls, and their clock.
struct Holding {
    queue: Queue,
    env: Arc<dyn Env>,
}

impl StartingService {
    /// The service of a gate that has not joined.
    #[must_use]
    pub fn of_gate(env: Arc<dyn Env>, limits: HeldLimits) -> Arc<Self> {
        let holding = Some(Holding { queue: Queue::new(limits), env });
        Arc::new(Self { joined: watch::Sender::default(), holding })
    }

    /// The service of a node that has not joined.
    #[must_use]
    pub fn of_node() -> Arc<Self> {
        Arc::new(Self { joined: watch::Sender::default(), holding: None })
    }

    /// The process has joined. From here on, `service` answers.
    pub fn joined(&self, service: Arc<dyn CallService>) {
        self.joined.send_replace(Some(service));
    }

    fn service(&self) -> Option<Arc<dyn CallService>> {
        self.joined.borrow().clone()
    }

    /// Holds a call until the process joins, and answers it in the rest of its timeout.
    async fn hold(&self, mut call: Call, holding: &Holding) -> Result<Bytes, CallError> {
        let Holding { queue, env } = holding;
        let slot = queue.enter(&call)?;
        let start = env.monotonic();
        let mut joined = self.joined.subscribe();
        let service = tokio::select! {
            biased;
            joined = joined.wait_for(Option::is_some) => joined.ok().and_then(|it| it.clone()),
            () = env.sleep(call.timeout) => return Err(CallError::Late),
        };
        drop(slot);
        let waited = env.monotonic().saturating_sub(start);
        call.timeout = call.timeout.saturating_sub(waited);
        match service {
            Some(service) => service.answer(call).await,
            None => Err(CallError::NotServing),
        }
    }
}

impl CallService for StartingService {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        match (self.service(), &self.holding) {
            (Some(service), _) => Box::pin(async move { service.answer(call).await }),
            (None, Some(holding)) => Box::pin(self.hold(call, holding)),
            (None, None) => Box::pin(async { Err(CallError::NotServing) }),
        }
    }

    fn loads(&self) -> Result<Vec<ShardLoad>, CallError> {
        self.service().ok_or(CallError::NotServing)?.loads()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Unready>> {
        match self.service() {
            Some(service) => Box::pin(async move { service.ready().await }),
            None => Box::pin(async { Err(Unready::Starting) }),
        }
    }
}
