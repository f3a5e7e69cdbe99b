//! A worker: claims shards of a run and works on them until nothing is left.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use shardwright_contracts::{Env, RunId, TenantId};
use tokio::sync::{Mutex, oneshot};

use crate::backend::Backend;
use crate::bells::Bells;
use crate::connector::Connector;
use crate::error::WorkerError;
use crate::event::Observer;
use crate::job::Job;
use crate::options::WorkerOptions;
use crate::retry::RetryPolicy;
use crate::sink::{Discard, Sink};
use crate::slot::Slot;
use crate::stop::Stop;

/// Between two tries of something that the store did not do.
const BACKOFF: RetryPolicy = RetryPolicy {
    retries: u32::MAX,
    first_wait: Duration::from_millis(20),
    longest_wait: Duration::from_secs(2),
};

/// What the slots of a worker share.
pub(crate) struct Shared<B, C, J, K, E> {
    pub(crate) backend: B,
    pub(crate) connector: C,
    pub(crate) job: J,
    pub(crate) sink: K,
    pub(crate) env: E,
    pub(crate) tenant: TenantId,
    pub(crate) run: RunId,
    pub(crate) options: WorkerOptions,
    pub(crate) stop: Stop,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) backoff: RetryPolicy,
    /// Slots claim in turn, and whoever got a shard that may kill workers keeps the turn for a
    /// time or until it has made progress: a shard that was acquired meanwhile would be blamed as
    /// well.
    pub(crate) claiming: Mutex<()>,
    pub(crate) bells: Bells,
    /// How often a shard may be acquired without progress before it parks itself.
    pub(crate) retry_limit: Option<NonZeroU32>,
    lease: Duration,
}

impl<B, C, J, K, E> Shared<B, C, J, K, E> {
    /// For how long a lease is used after it was asked for. The rest of it is for the work to
    /// stop in.
    pub(crate) fn usable_lease(&self) -> Duration {
        self.lease / 10 * 9
    }
}

/// How a worker's part of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything is done, and so is the run.
    Done,
    /// Everything is done but what is parked.
    Parked {
        /// How many shards are.
        shards: u32,
    },
    /// The worker was told to stop.
    Stopped,
}

/// Works on the shards of one run.
pub struct Worker<B, C, J, K, E> {
    shared: Arc<Shared<B, C, J, K, E>>,
}

impl Worker<(), (), (), (), ()> {
    /// Begins to put a worker for a run together.
    #[must_use]
    pub fn builder(tenant: TenantId, run: RunId) -> WorkerBuilder<(), (), (), Discard, ()> {
        let settings = Settings {
            tenant,
            run,
            options: WorkerOptions::default(),
            stop: Stop::default(),
            observer: Arc::new(()),
        };
        WorkerBuilder { backend: (), connector: (), job: (), sink: Discard, env: (), settings }
    }
}

/// What a worker is made of. It needs a backend, an environment, a connector and a job.
pub struct WorkerBuilder<B, C, J, K, E> {
    backend: B,
    connector: C,
    job: J,
    sink: K,
    env: E,
    settings: Settings,
}

struct Settings {
    tenant: TenantId,
    run: RunId,
    options: WorkerOptions,
    stop: Stop,
    observer: Arc<dyn Observer>,
}

impl<B, C, J, K, E> WorkerBuilder<B, C, J, K, E> {
    /// Where the run is coordinated.
    pub fn backend<N: Backend>(self, backend: N) -> WorkerBuilder<N, C, J, K, E> {
        let Self { connector, job, sink, env, settings, .. } = self;
        WorkerBuilder { backend, connector, job, sink, env, settings }
    }

    /// Where the items are.
    pub fn connector<N: Connector>(self, connector: N) -> WorkerBuilder<B, N, J, K, E> {
        let Self { backend, job, sink, env, settings, .. } = self;
        WorkerBuilder { backend, connector, job, sink, env, settings }
    }

    /// What is done with each item.
    pub fn job<N: Job>(self, job: N) -> WorkerBuilder<B, C, N, K, E> {
        let Self { backend, connector, sink, env, settings, .. } = self;
        WorkerBuilder { backend, connector, job, sink, env, settings }
    }

    /// Where results go; unless it is said, nowhere.
    pub fn sink<N: Sink>(self, sink: N) -> WorkerBuilder<B, C, J, N, E> {
        let Self { backend, connector, job, env, settings, .. } = self;
        WorkerBuilder { backend, connector, job, sink, env, settings }
    }

    /// Time, tasks and chance.
    pub fn env<N: Env>(self, env: N) -> WorkerBuilder<B, C, J, K, N> {
        let Self { backend, connector, job, sink, settings, .. } = self;
        WorkerBuilder { backend, connector, job, sink, env, settings }
    }

    /// How it works.
    #[must_use]
    pub fn options(mut self, options: WorkerOptions) -> Self {
        self.settings.options = options;
        self
    }

    /// What can tell it to stop.
    #[must_use]
    pub fn stop(mut self, stop: Stop) -> Self {
        self.settings.stop = stop;
        self
    }

    /// Who wants to know what it does.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observer = observer;
        self
    }
}

impl<B: Backend, C: Connector, J: Job, K: Sink, E: Env> WorkerBuilder<B, C, J, K, E> {
    /// Looks the run up, and makes the worker.
    pub async fn build(self) -> Result<Worker<B, C, J, K, E>, WorkerError> {
        let Self { backend, connector, job, sink, env, settings } = self;
        let Settings { tenant, run, options, stop, observer } = settings;
        let record = backend.get_run(tenant, run).await.map_err(WorkerError::coordination)?;
        let lease = Duration::from_millis(record.config.lease_duration_ms.get());
        let shared = Shared {
            backend,
            connector,
            job,
            sink,
            env,
            tenant,
            run,
            options,
            stop,
            observer,
            backoff: BACKOFF,
            claiming: Mutex::new(()),
            bells: Bells::default(),
            retry_limit: record.config.max_shard_retries,
            lease,
        };
        Ok(Worker { shared: Arc::new(shared) })
    }

    /// Makes the worker and lets it work; see [`Worker::run`].
    pub async fn run(self) -> Result<Ending, WorkerError> {
        self.build().await?.run().await
    }
}

impl<B: Backend, C: Connector, J: Job, K: Sink, E: Env> Worker<B, C, J, K, E> {
    /// Works until the run is done, or nothing but parked shards is left of it, or it is told to
    /// stop.
    pub async fn run(self) -> Result<Ending, WorkerError> {
        let shared = self.shared;
        let mut endings: FuturesUnordered<_> = (0..shared.options.slots.max(1))
            .map(|number| {
                let (sender, ending) = oneshot::channel();
                let slot = Slot::new(Arc::clone(&shared), number);
                shared.env.spawn(Box::pin(async move {
                    // Whoever waited for it may be gone.
                    let _gone = sender.send(slot.run().await);
                }));
                ending
            })
            .collect();
        let mut worst = Ok(Ending::Done);
        // As they end: one that has failed must not wait for one that goes on.
        while let Some(ending) = endings.next().await {
            let ending = ending.unwrap_or(Err(WorkerError::SlotDied));
            if ending.is_err() {
                // The others give back what they have.
                shared.stop.stop();
            }
            worst = worse(worst, ending);
        }
        shared.job.close().await;
        worst
    }
}

/// Of two endings the one that says more: a failure, then a stop, then what is parked.
fn worse(
    one: Result<Ending, WorkerError>,
    other: Result<Ending, WorkerError>,
) -> Result<Ending, WorkerError> {
    let rank = |ending: &Result<Ending, WorkerError>| match ending {
        Err(_) => 3,
        Ok(Ending::Stopped) => 2,
        Ok(Ending::Parked { .. }) => 1,
        Ok(Ending::Done) => 0,
    };
    if rank(&other) > rank(&one) { other } else { one }
}
