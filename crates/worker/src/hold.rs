//! One shard, from its acquisition until it is completed, parked, released or lost.
//!
//! Three tasks run side by side: the work, the renewal of the lease, and publishing estimates. When
//! a renewal is rejected or late, the work is dropped: its results were not committed, so they do
//! not exist. While the work is ending the shard, a rejected renewal may mean that it has ended, so
//! the answer is awaited while the lease is valid.

mod commit;
mod crash_policy;
mod divide;
mod estimate_state;
mod feed;
mod lease_cell;
mod ledger;
mod poison;
mod renewal;
mod work;

use std::pin::pin;
use std::time::Duration;

use futures_util::{FutureExt, select_biased};
use shardwright_contracts::{ShardId, WorkerId};
use shardwright_coordination::{CoordError, IdempotentOutcome, InfraError, RestoredShardState};
use tokio::sync::MutexGuard;

use self::crash_policy::{ExclusiveClaim, Exclusivity};
use self::estimate_state::EstimateState;
use self::lease_cell::LeaseCell;
use self::work::Work;
use crate::error::WorkerError;
use crate::event::WorkerEvent;
use crate::handler::Assignment;
use crate::worker::Shared;

/// How holding a shard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Parked,
    Released,
    Lost,
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
    pub(crate) shared: &'w Shared,
    pub(crate) slot: usize,
    pub(crate) worker: WorkerId,
}

impl Holder<'_> {
    /// Works on a shard whose claim was sent at `requested_at`. While `turn` is held, no other slot
    /// of this worker acquires a shard.
    pub(crate) async fn hold<'t>(
        &'t self,
        state: RestoredShardState,
        requested_at: Duration,
        turn: MutexGuard<'t, ()>,
    ) -> Result<End, WorkerError> {
        let shard = state.lease.key().shard;
        let (options, limit) = (&self.shared.options, self.shared.retry_limit);
        let exclusivity = Exclusivity::of(state.acquires_without_progress, limit, options);
        let exclusive = ExclusiveClaim::begin(exclusivity, self.shared.env.monotonic(), turn);
        self.report(WorkerEvent::Claimed {
            shard,
            fence: state.lease.fence(),
            start: state.spec.as_spec_ref().start(),
            end: state.spec.as_spec_ref().end(),
            after: state.cursor.as_update().last_key(),
        });
        let lease = LeaseCell::new(state.lease, requested_at + self.shared.usable_lease());
        let estimate = EstimateState::new(&state, self.shared.env.monotonic());
        let assignment = Assignment {
            run: self.shared.run,
            shard,
            fence: state.lease.fence(),
            worker: self.worker,
        };
        let ended = match Work::new(self, &assignment, &lease, &estimate, state, exclusive) {
            Ok(work) => self.work_on(work, &lease, &estimate).await,
            Err(error) => Err(Stopped::Failed(error)),
        };
        match ended {
            Ok(end) => Ok(end),
            Err(Stopped::Lost(reason)) => {
                self.report(WorkerEvent::Lost { shard, reason: &reason });
                Ok(End::Lost)
            }
            Err(Stopped::Refused(reason)) => {
                self.report(WorkerEvent::Refused { shard });
                self.report(WorkerEvent::Lost { shard, reason: &reason });
                Ok(End::Lost)
            }
            Err(Stopped::Failed(error)) => {
                self.abandon(&lease).await;
                Err(error)
            }
        }
    }

    /// Works while the lease can be renewed.
    async fn work_on(
        &self,
        work: Work<'_>,
        lease: &LeaseCell,
        estimate: &EstimateState,
    ) -> Result<End, Stopped> {
        let mut kept = pin!(self.keep(lease).fuse());
        let mut work = pin!(work.run().fuse());
        let mut publishing = pin!(self.publish_estimates(lease, estimate).fuse());
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
