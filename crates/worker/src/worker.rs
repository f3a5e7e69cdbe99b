//! A worker: claims shards of a run and works on them until nothing is left.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use shardwright_contracts::{Env, RunId, TenantId};
use shardwright_coordination::Backend;
use tokio::sync::{Mutex, oneshot};

use crate::bells::Bells;
use crate::builder::WorkerBuilder;
use crate::erased::{DynConnector, DynHandler, DynSink};
use crate::error::WorkerError;
use crate::event::Observer;
use crate::options::WorkerOptions;
use crate::retry::RetryPolicy;
use crate::slot::Slot;
use crate::stop::StopSignal;

/// What the slots of a worker share.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) connector: Arc<dyn DynConnector>,
    pub(crate) handler: Arc<dyn DynHandler>,
    pub(crate) sink: Arc<dyn DynSink>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) tenant: TenantId,
    pub(crate) run: RunId,
    pub(crate) options: WorkerOptions,
    pub(crate) stop: StopSignal,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) backoff: RetryPolicy,
    /// Slots claim in turn, and whoever got a shard that may kill workers keeps the turn for a
    /// time or until it has made progress: a shard that was acquired meanwhile would be blamed as
    /// well.
    pub(crate) claiming: Mutex<()>,
    pub(crate) bells: Bells,
    /// How often a shard may be acquired without progress before it parks itself.
    pub(crate) retry_limit: Option<NonZeroU32>,
    pub(crate) lease: Duration,
}

impl Shared {
    /// For how long a lease is used after it was asked for. The rest of it is for the work to
    /// stop in.
    pub(crate) fn usable_lease(&self) -> Duration {
        self.lease / 10 * 9
    }
}

/// How a worker's part of a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
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
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
}

impl Worker {
    /// Begins to put a worker for a run together.
    #[must_use]
    pub fn builder(tenant: TenantId, run: RunId) -> WorkerBuilder<(), (), (), ()> {
        WorkerBuilder::new(tenant, run)
    }
}

impl Worker {
    /// Works until the run is done, or nothing but parked shards is left of it, or it is told to
    /// stop.
    pub async fn run(self) -> Result<RunOutcome, WorkerError> {
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
        let mut worst = Ok(RunOutcome::Done);
        // As they end: one that has failed must not wait for one that goes on.
        while let Some(ending) = endings.next().await {
            let ending = ending.unwrap_or(Err(WorkerError::SlotDied));
            if ending.is_err() {
                // The others give back what they have.
                shared.stop.stop();
            }
            worst = worse(worst, ending);
        }
        shared.handler.close().await;
        worst
    }
}

/// Of two endings the one that says more: a failure, then a stop, then what is parked.
fn worse(
    one: Result<RunOutcome, WorkerError>,
    other: Result<RunOutcome, WorkerError>,
) -> Result<RunOutcome, WorkerError> {
    let rank = |ending: &Result<RunOutcome, WorkerError>| match ending {
        Err(_) => 3,
        Ok(RunOutcome::Stopped) => 2,
        Ok(RunOutcome::Parked { .. }) => 1,
        Ok(RunOutcome::Done) => 0,
    };
    if rank(&other) > rank(&one) { other } else { one }
}
