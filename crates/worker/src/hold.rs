//! One shard, from its acquisition until it is completed, parked, released or lost.
//!
//! Three tasks run side by side: the work, the renewal of the lease, and publishing estimates. When
//! a renewal is rejected or late, the work is dropped: its results were not committed, so they do
//! not exist. While the work is ending the shard, a rejected renewal may mean that it has ended, so
//! the answer is awaited while the lease is valid.

mod aside;
mod backlog;
mod commit;
mod crash_policy;
mod desk;
mod divide;
mod estimate_state;
mod feed;
mod lease_cell;
mod ledger;
mod poison;
mod renewal;
mod retry_state;
mod shard;
mod work;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{ShardId, ShardKey, WorkerId};
use shardwright_coordination::{
    AcquireError, AsyncCoordinationBackend as _, CoordError, IdempotentOutcome, InfraError,
    RestoredShardState,
};
use tokio::sync::OwnedMutexGuard;

use self::backlog::Backlog;
use self::crash_policy::{ExclusiveClaim, Exclusivity};
use self::desk::Place;
use self::estimate_state::EstimateState;
use self::lease_cell::LeaseCell;
use self::shard::Shard;
use self::work::Work;
use crate::background::BackgroundTask;
use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::turns::Loans;
use crate::worker::Shared;

/// Longest wait for the turn to acquire shards, before a split. Without it, another slot of the
/// worker may acquire first what is split off.
const TURN_WAIT: Duration = Duration::from_secs(1);

/// How the work on a shard ended.
enum Finish {
    /// The shard was completed, parked or released. The slot goes on with what was split off, if
    /// it could be acquired.
    Ended(Option<Box<Residual>>),
    /// It holds nothing but items that wait for retries, and needs no slot.
    Waits(Box<Shard>, Option<Box<Residual>>),
}

/// A shard that was split off and acquired, with the items of its range that are in hand.
struct Residual {
    state: RestoredShardState,
    requested_at: Duration,
    backlog: Backlog,
}

/// A shard in hand, with its lease.
struct Held {
    lease: LeaseCell,
    estimate: EstimateState,
    shard: Box<Shard>,
    exclusive: Option<ExclusiveClaim>,
}

/// Why work on a shard stopped before its end.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The lease was lost.
    Lost(String),
    /// The store rejected a write, because the lease was no longer valid.
    Refused(String),
    /// The worker cannot go on.
    Failed(WorkerError),
}

impl From<WorkerError> for Stopped {
    fn from(error: WorkerError) -> Self {
        Self::Failed(error)
    }
}

/// The worker slot that holds a shard.
pub(crate) struct Holder<'w> {
    pub(crate) shared: &'w Arc<Shared>,
    pub(crate) slot: usize,
    pub(crate) worker: WorkerId,
}

impl Holder<'_> {
    /// Works on a shard whose claim was sent at `requested_at`, and on what is split off from it
    /// beside its failing items. While `turn` is held, no other slot of this worker acquires a
    /// shard.
    pub(crate) async fn hold(
        &self,
        state: RestoredShardState,
        requested_at: Duration,
        turn: OwnedMutexGuard<()>,
        loans: &mut Loans,
    ) -> Result<(), WorkerError> {
        let (options, limit) = (&self.shared.options, self.shared.retry_limit);
        let exclusivity = Exclusivity::of(state.acquires_without_progress, limit, options);
        let exclusive = ExclusiveClaim::begin(exclusivity, self.shared.env.monotonic(), turn);
        let held = self.begin(state, requested_at, exclusive, None).await?;
        self.go_on(held, Place::Slot(loans)).await
    }

    /// Works on a shard, and then on what was split off from it.
    async fn go_on(&self, held: Held, mut place: Place<'_>) -> Result<(), WorkerError> {
        let mut next = Some(held);
        while let Some(held) = next.take() {
            if let Some(residual) = self.work_on(held, place.reborrow()).await? {
                let Residual { state, requested_at, backlog } = *residual;
                next = Some(self.begin(state, requested_at, None, Some(backlog)).await?);
            }
        }
        Ok(())
    }

    /// Begins to work on an acquired shard.
    async fn begin(
        &self,
        state: RestoredShardState,
        requested_at: Duration,
        exclusive: Option<ExclusiveClaim>,
        carried: Option<Backlog>,
    ) -> Result<Held, WorkerError> {
        self.report(WorkerEvent::Claimed {
            shard: state.lease.key().shard,
            fence: state.lease.fence(),
            start: state.spec.as_spec_ref().start(),
            end: state.spec.as_spec_ref().end(),
            after: state.cursor.as_update().last_key(),
        });
        let lease = LeaseCell::new(state.lease, requested_at + self.shared.usable_lease());
        let estimate = EstimateState::new(&state, self.shared.env.monotonic());
        match Shard::acquired(self, &state, carried) {
            Ok(shard) => {
                if let Some(key) = &shard.backlog.handed_out {
                    estimate.handed_out(key);
                }
                Ok(Held { lease, estimate, shard: Box::new(shard), exclusive })
            }
            Err(error) => {
                self.abandon(&lease).await;
                Err(error)
            }
        }
    }

    /// The turn to acquire shards. None if another slot keeps it for long.
    async fn turn(&self) -> Option<OwnedMutexGuard<()>> {
        let mut turn = pin!(Arc::clone(&self.shared.claiming).lock_owned().fuse());
        let mut late = pin!(self.shared.env.sleep(TURN_WAIT).fuse());
        select_biased! {
            turn = turn => Some(turn),
            () = late => None,
        }
    }

    /// Acquires what was split off, with what is in hand of it. None if another worker had it
    /// meanwhile, or if the store failed: then the items in hand are processed again.
    async fn acquire(
        &self,
        shard: ShardId,
        backlog: Backlog,
    ) -> Result<Option<Box<Residual>>, WorkerError> {
        let shared = self.shared;
        if shared.stop.is_stopped() {
            return Ok(None);
        }
        let (key, requested_at) = (ShardKey::new(shared.run, shard), shared.env.monotonic());
        let state = match shared.backend.acquire_and_restore(shared.tenant, key, self.worker).await
        {
            Ok(state) => state,
            Err(AcquireError::BackendError(error)) if error.is_retryable() => {
                self.report(WorkerEvent::Retrying { message: &error.to_string() });
                return Ok(None);
            }
            Err(AcquireError::BackendError(error)) => return Err(error.into()),
            Err(_) => return Ok(None),
        };
        if backlog.is_of(&state) {
            return Ok(Some(Box::new(Residual { state, requested_at, backlog })));
        }
        self.abandon(&LeaseCell::new(state.lease, requested_at + shared.usable_lease())).await;
        Ok(None)
    }

    /// Works on a shard to its end in this place. Returns what was split off.
    async fn work_on(
        &self,
        held: Held,
        place: Place<'_>,
    ) -> Result<Option<Box<Residual>>, WorkerError> {
        let Held { lease, estimate, shard, exclusive } = held;
        let waits = matches!(place, Place::Background(_));
        let work = Work::new(self, &lease, &estimate, *shard, exclusive, place);
        let id = lease.lease().key().shard;
        match self.work_with_lease(work, &lease, &estimate, waits).await {
            Ok(Finish::Ended(residual)) => Ok(residual),
            Ok(Finish::Waits(shard, residual)) => {
                self.leave_slot(Held { lease, estimate, shard, exclusive: None });
                Ok(residual)
            }
            Err(Stopped::Lost(reason)) => {
                self.report(WorkerEvent::Lost { shard: id, reason: &reason });
                Ok(None)
            }
            Err(Stopped::Refused(reason)) => {
                self.report(WorkerEvent::Refused { shard: id });
                self.report(WorkerEvent::Lost { shard: id, reason: &reason });
                Ok(None)
            }
            Err(Stopped::Failed(error)) => {
                self.abandon(&lease).await;
                Err(error)
            }
        }
    }

    /// Goes on with a shard without the slot.
    fn leave_slot(&self, held: Held) {
        let (shared, slot, worker) = (Arc::clone(self.shared), self.slot, self.worker);
        let task = BackgroundTask::begin(Arc::clone(&shared));
        self.shared.env.spawn(Box::pin(async move {
            let holder = Holder { shared: &shared, slot, worker };
            let ended = holder.go_on(held, Place::Background(None)).await;
            if ended.is_err() {
                // The slots release their shards.
                shared.stop.stop();
            }
            task.end(ended);
        }));
    }

    /// Works while the lease can be renewed.
    async fn work_with_lease(
        &self,
        work: Work<'_>,
        lease: &LeaseCell,
        estimate: &EstimateState,
        waits: bool,
    ) -> Result<Finish, Stopped> {
        let mut kept = pin!(self.keep(lease).fuse());
        let mut work = pin!(work.run().fuse());
        let mut publishing = pin!(
            async {
                match waits {
                    true => self.publish_last(lease, estimate).await,
                    false => self.publish_estimates(lease, estimate).await,
                }
            }
            .fuse()
        );
        select_biased! {
            lost = kept => Err(Stopped::Lost(lost)),
            ended = work => ended,
            never = publishing => match never {},
        }
    }

    pub(crate) fn report(&self, event: WorkerEvent<'_>) {
        self.shared.observer.event(self.slot, event);
    }

    /// Reports an operation that was answered from the op log.
    fn note_replay<T>(&self, shard: ShardId, outcome: &IdempotentOutcome<T>) {
        if outcome.is_replay() {
            self.report(WorkerEvent::Replayed { shard });
        }
    }

    /// Reports a failure of the store, and waits before the retry.
    pub(crate) async fn pause_after(&self, failures: &mut u32, error: &InfraError) {
        self.report(WorkerEvent::Retrying { message: &error.to_string() });
        let wait = self.shared.backoff.wait(*failures + 1, self.shared.env.random());
        *failures = failures.saturating_add(1);
        self.shared.env.sleep(wait).await;
    }
}

/// Classifies a rejection of an operation on a held shard: the lease is lost, or the worker fails.
pub(crate) fn stopped_by(shard: ShardId, refusal: impl Into<CoordError>) -> Stopped {
    match refusal.into() {
        lost @ (CoordError::StaleFence(_)
        | CoordError::LeaseExpired(_)
        | CoordError::ShardTerminal(_)
        | CoordError::RunNotActive(_)
        | CoordError::ShardNotFound(_)) => Stopped::Refused(lost.to_string()),
        error => Stopped::Failed(WorkerError::Refused { shard, error: Box::new(error) }),
    }
}
