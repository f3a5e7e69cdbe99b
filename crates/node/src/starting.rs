use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use shardwright_api::CallError;

use crate::call::Call;
use crate::readiness::Unready;
use crate::transport::{BoxFuture, CallService, ShardLoad};

/// The service of a process that may have to wait before it joins its cluster. Until then it
/// refuses calls, and is not ready.
///
/// A listener without a service would accept connections and answer nothing.
#[derive(Default)]
pub struct StartingService {
    joined: OnceLock<Arc<dyn CallService>>,
}

impl StartingService {
    /// A service of a process that has not joined.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// The process has joined. From here on, `service` answers.
    pub fn joined(&self, service: Arc<dyn CallService>) {
        // A process joins once. The first service stays.
        let _ = self.joined.set(service);
    }
}

impl CallService for StartingService {
    fn answer(&self, call: Call) -> BoxFuture<'_, Result<Bytes, CallError>> {
        match self.joined.get() {
            Some(service) => service.answer(call),
            None => Box::pin(async { Err(CallError::NotServing) }),
        }
    }

    fn loads(&self) -> Vec<ShardLoad> {
        self.joined.get().map(|service| service.loads()).unwrap_or_default()
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), Unready>> {
        match self.joined.get() {
            Some(service) => service.ready(),
            None => Box::pin(async { Err(Unready::Starting) }),
        }
    }
}
