//! The builder of workers.

use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, RunId, TenantId};
use shardwright_coordination::{AsyncRunManagement as _, Backend};
use tokio::sync::Mutex;

use crate::background::Background;
use crate::connector::Connector;
use crate::erased::{DynConnector, DynHandler, DynSink};
use crate::error::WorkerError;
use crate::event::Observer;
use crate::handler::Handler;
use crate::options::{RetryPolicy, WorkerOptions};
use crate::signals::{StopSignal, WakeUps};
use crate::sink::{NullSink, Sink};
use crate::turns::Turns;
use crate::worker::{RunOutcome, Shared, Worker};

/// Waits between retries of store operations.
const BACKOFF: RetryPolicy = RetryPolicy {
    retries: u32::MAX,
    first_wait: Duration::from_millis(20),
    longest_wait: Duration::from_secs(2),
};

/// The parts of a worker. Backend, environment, connector and handler are required: the type
/// records which are set, and only a complete builder can be built.
pub struct WorkerBuilder<B, C, H, E> {
    backend: B,
    connector: C,
    handler: H,
    env: E,
    settings: Settings,
}

/// A builder whose required parts are all set.
pub type CompleteWorkerBuilder =
    WorkerBuilder<ChosenBackend, ChosenConnector, ChosenHandler, ChosenEnv>;

/// The backend of a worker.
pub struct ChosenBackend(Arc<dyn Backend>);

/// The connector of a worker.
pub struct ChosenConnector(Arc<dyn DynConnector>);

/// The handler of a worker.
pub struct ChosenHandler(Arc<dyn DynHandler>);

/// The environment of a worker.
pub struct ChosenEnv(Arc<dyn Env>);

struct Settings {
    tenant: TenantId,
    run: RunId,
    sink: Arc<dyn DynSink>,
    options: WorkerOptions,
    stop: StopSignal,
    observer: Arc<dyn Observer>,
}

impl WorkerBuilder<(), (), (), ()> {
    pub(crate) fn new(tenant: TenantId, run: RunId) -> Self {
        let settings = Settings {
            tenant,
            run,
            sink: Arc::new(NullSink),
            options: WorkerOptions::default(),
            stop: StopSignal::default(),
            observer: Arc::new(()),
        };
        Self { backend: (), connector: (), handler: (), env: (), settings }
    }
}

impl<B, C, H, E> WorkerBuilder<B, C, H, E> {
    /// Sets the backend that coordinates the run.
    pub fn backend(self, backend: impl Backend + 'static) -> WorkerBuilder<ChosenBackend, C, H, E> {
        let Self { connector, handler, env, settings, .. } = self;
        let backend = ChosenBackend(Arc::new(backend));
        WorkerBuilder { backend, connector, handler, env, settings }
    }

    /// Sets the source of items.
    pub fn connector(self, connector: impl Connector) -> WorkerBuilder<B, ChosenConnector, H, E> {
        let Self { backend, handler, env, settings, .. } = self;
        let connector = ChosenConnector(Arc::new(connector));
        WorkerBuilder { backend, connector, handler, env, settings }
    }

    /// Sets the handler of items.
    pub fn handler(self, handler: impl Handler) -> WorkerBuilder<B, C, ChosenHandler, E> {
        let Self { backend, connector, env, settings, .. } = self;
        WorkerBuilder {
            backend,
            connector,
            handler: ChosenHandler(Arc::new(handler)),
            env,
            settings,
        }
    }

    /// Sets the environment: clock, tasks and randomness.
    pub fn env(self, env: impl Env) -> WorkerBuilder<B, C, H, ChosenEnv> {
        let Self { backend, connector, handler, settings, .. } = self;
        WorkerBuilder { backend, connector, handler, env: ChosenEnv(Arc::new(env)), settings }
    }

    /// Sets the sink of results [default: `NullSink`].
    #[must_use]
    pub fn sink(mut self, sink: impl Sink) -> Self {
        self.settings.sink = Arc::new(sink);
        self
    }

    /// Sets the options.
    #[must_use]
    pub fn options(mut self, options: WorkerOptions) -> Self {
        self.settings.options = options;
        self
    }

    /// Sets the signal that stops the worker.
    #[must_use]
    pub fn stop(mut self, stop: StopSignal) -> Self {
        self.settings.stop = stop;
        self
    }

    /// Sets the receiver of events.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observer = observer;
        self
    }
}

impl CompleteWorkerBuilder {
    /// Loads the run and builds the worker.
    pub async fn build(self) -> Result<Worker, WorkerError> {
        let Self { backend, connector, handler, env, settings } = self;
        let Settings { tenant, run, sink, options, stop, observer } = settings;
        let ChosenBackend(backend) = backend;
        let record = backend.get_run(tenant, run).await.map_err(WorkerError::coordination)?;
        let (background, ended) = Background::new();
        let shared = Shared {
            backend,
            connector: connector.0,
            handler: handler.0,
            sink,
            env: env.0,
            tenant,
            run,
            options,
            stop,
            observer,
            backoff: BACKOFF,
            claiming: Arc::new(Mutex::new(())),
            turns: Turns::default(),
            background,
            wake_ups: WakeUps::default(),
            retry_limit: record.config.max_shard_retries,
            lease: Duration::from_millis(record.config.lease_duration_ms.get()),
        };
        Ok(Worker { shared: Arc::new(shared), ended })
    }

    /// Builds the worker and runs it; see [`Worker::run`].
    pub async fn run(self) -> Result<RunOutcome, WorkerError> {
        self.build().await?.run().await
    }
}
