//! Giving the rest of a shard to whoever has nothing to do.

use std::time::Duration;

use shardwright_contracts::{ShardSpec, plan_split_residual};
use shardwright_coordination::error::reason::SplitInvalid;
use shardwright_coordination::{AsyncCoordinationBackend as _, DeclineError, SplitResidualError};

use super::work::Work;
use super::{Stopped, stopped_by};
use crate::event::WorkerEvent;

/// How long nobody is to ask for a part of what cannot be divided, for now or for good.
const INDIVISIBLE_FOR: Duration = Duration::from_secs(2);
/// How long nobody is to ask for a part of what will be done soon.
const SOON_DONE_FOR: Duration = Duration::from_millis(500);
/// Which part of what is left is kept.
const KEPT: f64 = 0.5;

/// Whether a shard was divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Divided {
    Yes,
    /// It is as it was, because the run protocol does not allow it.
    No(SplitInvalid),
}

/// Where what has not been handed out can be divided.
enum Boundary {
    At(Vec<u8>),
    /// Nowhere, unless more of it is read.
    Nowhere,
    /// The source could not be asked.
    Unknown,
}

impl Work<'_> {
    /// Answers a request for a part of the shard: with a part, or with a time to ask again.
    pub(super) async fn answer(&mut self) -> Result<(), Stopped> {
        let outlook = self.holder.outlook(self.advice).await;
        let least = self.holder.shared.options.least_split.saturating_mul(2);
        let is_soon_done = outlook.left_ms.is_some_and(|left| u128::from(left) < least.as_millis());
        if is_soon_done {
            return self.decline(SOON_DONE_FOR).await;
        }
        let boundary = self.boundary().await;
        // Nobody asks whoever says so, so it is said only where asking again would be in vain.
        self.advice.indivisible(matches!(boundary, Boundary::Nowhere));
        let has_divided = match &boundary {
            Boundary::At(key) => self.divide(key).await? == Divided::Yes,
            Boundary::Nowhere => false,
            Boundary::Unknown => return self.decline(INDIVISIBLE_FOR).await,
        };
        if !has_divided {
            let (shard, key) = (self.shard(), self.handed_out.as_deref());
            self.holder.tell(WorkerEvent::Indivisible { shard, key });
            return self.decline(INDIVISIBLE_FOR).await;
        }
        Ok(())
    }

    async fn boundary(&mut self) -> Boundary {
        let shared = self.holder.shared;
        let mut otherwise = Boundary::Nowhere;
        if !self.feed.has_ended() {
            let (range, after) = (self.feed.range(), self.handed_out.as_deref());
            match shared.connector.propose_split(range, after, KEPT).await {
                Ok(Some(boundary)) => return Boundary::At(boundary),
                Ok(None) => {}
                Err(_) => otherwise = Boundary::Unknown,
            }
        }
        // Whoever works on something may give all that comes behind it away.
        let middle = self.feed.middle(!self.tracker.is_empty());
        let middle = middle.filter(|key| key.as_slice() > self.spec.as_spec_ref().start());
        middle.map_or(otherwise, Boundary::At)
    }

    /// Makes a new shard of everything from `boundary` on, if there may be one.
    pub(super) async fn divide(&mut self, boundary: &[u8]) -> Result<Divided, Stopped> {
        let shared = self.holder.shared;
        let spec = self.spec.clone();
        let committed = self.ledger.committed().map(<[u8]>::to_vec);
        let cursor = shardwright_contracts::CursorUpdate::new(committed.as_deref(), None);
        let plan = match plan_split_residual(spec.as_spec_ref(), cursor, boundary) {
            Ok(plan) => plan,
            Err(reason) => return Ok(Divided::No(reason.into())),
        };
        let (op, mut failures) = (self.new_op(), 0);
        let residual = loop {
            let lease = self.lease.lease();
            match shared.backend.split_residual(shared.tenant, &lease, &plan, op).await {
                Ok(outcome) => {
                    self.holder.note_replay(self.shard(), &outcome);
                    break outcome.into_inner().residual;
                }
                Err(SplitResidualError::BackendError(error)) if error.is_retryable() => {
                    self.holder.pause_after(&mut failures, &error).await;
                }
                Err(SplitResidualError::SplitInvalid(reason)) => return Ok(Divided::No(reason)),
                Err(refusal) => return Err(stopped_by(self.shard(), refusal)),
            }
        };
        if let Ok(narrowed) = ShardSpec::try_from_ref(plan.narrowed()) {
            self.spec = narrowed;
        }
        self.lease.answered();
        self.feed.narrow(boundary);
        self.advice.narrowed(boundary);
        shared.handler.divided(self.assignment, boundary);
        let shard = self.shard();
        self.holder.tell(WorkerEvent::Split { shard, residual, boundary });
        Ok(Divided::Yes)
    }

    async fn decline(&mut self, pause: Duration) -> Result<(), Stopped> {
        let shared = self.holder.shared;
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let lease = self.lease.lease();
        self.lease.answered();
        match shared.backend.decline_split(shared.tenant, &lease, pause_ms).await {
            Ok(()) => Ok(()),
            // Whoever asked will see that nothing comes of it.
            Err(DeclineError::BackendError(error)) if error.is_retryable() => Ok(()),
            Err(refusal) => Err(stopped_by(self.shard(), refusal)),
        }
    }
}
