//! One shard, from the moment it is acquired until it is somebody else's.
//!
//! Three things go on side by side: the work, the renewal of the lease, and telling others how far
//! the work is. When a renewal is refused or comes too late, the work is dropped where it stands:
//! its results were not committed, so they do not exist. Only where the work is just about to end
//! the shard, a refusal may mean that it has, and the answer is waited for while the lease lasts.

mod advice;
mod care;
mod commit;
mod divide;
mod feed;
mod give_back;
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

use self::advice::Advice;
use self::care::{Alone, Solitude};
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
    /// The shard is not ours any more.
    Lost(String),
    /// It was somebody else's already when something was to be written.
    Refused(String),
    /// Nothing more can be done here.
    Failed(WorkerError),
}

impl From<WorkerError> for Stopped {
    fn from(error: WorkerError) -> Self {
        Self::Failed(error)
    }
}

/// Who holds what.
pub(crate) struct Holder<'w> {
    pub(crate) shared: &'w Shared,
    pub(crate) slot: usize,
    pub(crate) worker: WorkerId,
}

impl Holder<'_> {
    /// Works on a shard that was acquired after `asked_at`. While `turn` is kept, nobody else of
    /// this worker acquires one.
    pub(crate) async fn hold<'t>(
        &'t self,
        state: RestoredShardState,
        asked_at: Duration,
        turn: MutexGuard<'t, ()>,
    ) -> Result<End, WorkerError> {
        let shard = state.lease.key().shard;
        let (options, limit) = (&self.shared.options, self.shared.retry_limit);
        let alone = Alone::of(state.fruitless_acquires, limit, options);
        let solitude = Solitude::begin(alone, self.shared.env.monotonic(), turn);
        self.tell(WorkerEvent::Claimed {
            shard,
            fence: state.lease.fence(),
            start: state.spec.as_spec_ref().start(),
            end: state.spec.as_spec_ref().end(),
            after: state.cursor.as_update().last_key(),
        });
        let lease = LeaseCell::new(state.lease, asked_at + self.shared.usable_lease());
        let advice = Advice::new(&state, self.shared.env.monotonic());
        let assignment = Assignment {
            run: self.shared.run,
            shard,
            fence: state.lease.fence(),
            worker: self.worker,
        };
        let ended = match Work::new(self, &assignment, &lease, &advice, state, solitude) {
            Ok(work) => self.work_on(work, &lease, &advice).await,
            Err(error) => Err(Stopped::Failed(error)),
        };
        match ended {
            Ok(end) => Ok(end),
            Err(Stopped::Lost(reason)) => {
                self.tell(WorkerEvent::Lost { shard, reason: &reason });
                Ok(End::Lost)
            }
            Err(Stopped::Refused(reason)) => {
                self.tell(WorkerEvent::Refused { shard });
                self.tell(WorkerEvent::Lost { shard, reason: &reason });
                Ok(End::Lost)
            }
            Err(Stopped::Failed(error)) => {
                self.give_up(&lease).await;
                Err(error)
            }
        }
    }

    /// Works for as long as the lease can be kept.
    async fn work_on(
        &self,
        work: Work<'_>,
        lease: &LeaseCell,
        advice: &Advice,
    ) -> Result<End, Stopped> {
        let mut kept = pin!(self.keep(lease).fuse());
        let mut work = pin!(work.run().fuse());
        let mut advising = pin!(self.advise(lease, advice).fuse());
        select_biased! {
            lost = kept => Err(Stopped::Lost(lost)),
            ended = work => ended,
            never = advising => match never {},
        }
    }

    pub(crate) fn tell(&self, event: WorkerEvent<'_>) {
        self.shared.observer.event(self.slot, event);
    }

    /// Tells if an operation had taken effect before, and was not done a second time.
    fn note_replay<T>(&self, shard: ShardId, outcome: &IdempotentOutcome<T>) {
        if outcome.is_replay() {
            self.tell(WorkerEvent::Replayed { shard });
        }
    }

    /// Waits a little before something is tried again that the store did not do.
    pub(crate) async fn pause_after(&self, failures: &mut u32, error: &InfraError) {
        self.tell(WorkerEvent::Trouble { message: &error.to_string() });
        let wait = self.shared.backoff.wait(*failures + 1, self.shared.env.random());
        *failures = failures.saturating_add(1);
        self.shared.env.sleep(wait).await;
    }
}

/// What a refusal of an operation on a held shard means: it is lost, or nothing helps.
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
