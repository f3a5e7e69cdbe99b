//! A worker: claims shards of a run and works on them until nothing is left.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::{FutureExt as _, select_biased};
use shardwright_contracts::{
    CursorUpdate, Env, InitialShardInput, OpId, RunId, ShardId, ShardSpecRef, TenantId,
};
use shardwright_coordination::{
    AsyncRunManagement as _, Backend, CreateRunWithShardsError, RunConfig,
};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::background::{Background, Ended};
use crate::builder::WorkerBuilder;
use crate::connector::KeyRange;
use crate::erased::{DynConnector, DynHandler, DynSink};
use crate::error::WorkerError;
use crate::event::Observer;
use crate::options::{RetryPolicy, WorkerOptions};
use crate::signals::{StopSignal, WakeUps};
use crate::slot::Slot;
use crate::turns::Turns;

/// The op id under which a run is created, equal in all processes: all but the first replay it.
const CREATE_RUN: OpId = OpId::from_raw(1);

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
    /// Slots claim in turn. The holder of a shard that may kill workers keeps the turn for a time
    /// or until it has made progress: a shard acquired meanwhile would be blamed as well.
    pub(crate) claiming: Arc<Mutex<()>>,
    /// Requests of holds without a slot.
    pub(crate) turns: Turns,
    pub(crate) background: Background,
    pub(crate) wake_ups: WakeUps,
    /// How often a shard may be acquired without progress before it parks itself.
    pub(crate) retry_limit: Option<NonZeroU32>,
    pub(crate) lease: Duration,
}

impl Shared {
    /// How long a lease is used after it was requested. In the rest of it the work stops.
    pub(crate) fn usable_lease(&self) -> Duration {
        self.lease / 10 * 9
    }
}

/// How a run ended for one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// All shards and the run are done.
    Done,
    /// Only parked shards are left.
    Parked {
        /// Number of parked shards.
        shards: u32,
    },
    /// The worker was stopped.
    Stopped,
}

/// Processes the shards of one run.
pub struct Worker {
    pub(crate) shared: Arc<Shared>,
    /// The results of holds without a slot.
    pub(crate) ended: mpsc::UnboundedReceiver<Ended>,
}

impl Worker {
    /// Starts building a worker for a run.
    #[must_use]
    pub fn builder(tenant: TenantId, run: RunId) -> WorkerBuilder<(), (), (), ()> {
        WorkerBuilder::new(tenant, run)
    }

    /// Works until the run is done, only parked shards are left, or the worker is stopped.
    pub async fn run(self) -> Result<RunOutcome, WorkerError> {
        let Self { shared, mut ended } = self;
        let mut outcomes: FuturesUnordered<_> = (0..shared.options.slots.max(1))
            .map(|number| {
                let (sender, outcome) = oneshot::channel();
                let slot = Slot::new(Arc::clone(&shared), number);
                shared.env.spawn(Box::pin(async move {
                    // The caller may have dropped the future.
                    let _gone = sender.send(slot.run().await);
                }));
                outcome
            })
            .collect();
        let mut worst = Ok(RunOutcome::Done);
        let mut ended_holds = 0;
        // In the order in which slots end: a failure must not wait for a slot that still works.
        while !outcomes.is_empty() || ended_holds < shared.background.begun() {
            let outcome = select_biased! {
                outcome = outcomes.select_next_some() => {
                    outcome.unwrap_or(Err(WorkerError::SlotDied))
                }
                ended = ended.recv().fuse() => {
                    ended_holds += 1;
                    ended.unwrap_or(Ok(())).map(|()| RunOutcome::Done)
                }
            };
            if outcome.is_err() {
                // The other slots release their shards.
                shared.stop.stop();
            }
            worst = worse(worst, outcome);
        }
        shared.handler.close().await;
        worst
    }
}

/// Creates a run with its first shards: those that [`first_shards`] makes of a connector's ranges,
/// or those that a `PreallocShardBuilder` of `shardwright-frontier` built. Repeating the call with
/// the same arguments, in any process, finds the run created.
pub async fn create_run(
    backend: &(impl Backend + ?Sized),
    tenant: TenantId,
    run: RunId,
    config: RunConfig,
    shards: &[InitialShardInput<'_>],
) -> Result<(), CreateRunWithShardsError> {
    backend.create_run_with_shards(tenant, run, config, shards, CREATE_RUN).await?;
    Ok(())
}

/// The first shards of a run over `ranges`, as a connector proposes them, numbered from 0.
#[must_use]
pub fn first_shards(ranges: &[KeyRange]) -> Vec<InitialShardInput<'_>> {
    let shard = |(range, id)| {
        let KeyRange { start, end }: &KeyRange = range;
        InitialShardInput {
            shard: ShardId::from_raw(id),
            spec: ShardSpecRef::new(start, end, b""),
            cursor: CursorUpdate::initial(),
        }
    };
    ranges.iter().zip(0..).map(shard).collect()
}

/// The more important of two outcomes: a failure, then a stop, then parked shards.
fn worse(
    one: Result<RunOutcome, WorkerError>,
    other: Result<RunOutcome, WorkerError>,
) -> Result<RunOutcome, WorkerError> {
    let rank = |outcome: &Result<RunOutcome, WorkerError>| match outcome {
        Err(_) => 3,
        Ok(RunOutcome::Stopped) => 2,
        Ok(RunOutcome::Parked { .. }) => 1,
        Ok(RunOutcome::Done) => 0,
    };
    if rank(&other) > rank(&one) { other } else { one }
}
