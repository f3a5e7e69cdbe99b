//! Publishing how much of a shard is left.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use shardwright_coordination::{AsyncWorkEstimates as _, RestoredShardState, WorkEstimate};

use super::Holder;
use super::lease_cell::LeaseCell;
use crate::connector::KeyRange;
use crate::pace::{Left, Pace};

/// The first estimate comes soon, because idle workers have none to decide by.
const FIRST_AFTER: Duration = Duration::from_millis(50);

/// The progress of the work, shared with the task that publishes estimates.
#[derive(Debug)]
pub(super) struct EstimateState {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pace: Pace,
    range: KeyRange,
    /// The last key handed to the handler.
    after: Option<Vec<u8>>,
    is_indivisible: bool,
    is_published: bool,
}

impl EstimateState {
    pub(super) fn new(shard: &RestoredShardState, now: Duration) -> Self {
        let spec = shard.spec.as_spec_ref();
        let range = KeyRange { start: spec.start().to_vec(), end: spec.end().to_vec() };
        let after = shard.cursor.as_update().last_key().map(<[u8]>::to_vec);
        let pace = Pace::new(now);
        let (is_indivisible, is_published) = (false, false);
        Self { state: Mutex::new(State { pace, range, after, is_indivisible, is_published }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn done(&self, bytes: u64) {
        self.state().pace.note(bytes);
    }

    pub(super) fn handed_out(&self, key: &[u8]) {
        let mut state = self.state();
        match &mut state.after {
            Some(after) => key.clone_into(after),
            none => *none = Some(key.to_vec()),
        }
    }

    pub(super) fn narrowed(&self, end: &[u8]) {
        end.clone_into(&mut self.state().range.end);
    }

    pub(super) fn indivisible(&self, is_indivisible: bool) {
        self.state().is_indivisible = is_indivisible;
    }

    /// Whether an estimate was or may have been published.
    fn is_published(&self) -> bool {
        self.state().is_published
    }

    fn position(&self) -> (KeyRange, Option<Vec<u8>>) {
        let state = self.state();
        (state.range.clone(), state.after.clone())
    }

    fn estimate(&self, left: Left, now: Duration) -> WorkEstimate {
        let mut state = self.state();
        state.pace.measure(now);
        state.pace.estimate(left, state.is_indivisible)
    }
}

impl Holder<'_> {
    /// What is left of a shard, and how long it will take.
    pub(super) async fn estimate(&self, state: &EstimateState) -> WorkEstimate {
        let (range, after) = state.position();
        let left = match self.shared.connector.estimate(&range, after.as_deref()).await {
            Ok(left) => Left { items: left.items.value(), bytes: left.bytes.value() },
            Err(_) => Left::default(),
        };
        state.estimate(left, self.shared.env.monotonic())
    }

    /// Publishes estimates periodically, without end. Failures are ignored: estimates only help to
    /// choose what to split.
    pub(super) async fn publish_estimates(
        &self,
        cell: &LeaseCell,
        state: &EstimateState,
    ) -> Infallible {
        let mut wait = FIRST_AFTER;
        loop {
            self.shared.env.sleep(wait).await;
            wait = self.shared.options.estimate_interval;
            self.publish_estimate(cell, state).await;
        }
    }

    /// Publishes that a shard whose items only wait is not worth a split, unless no estimate of it
    /// is published. Without end.
    pub(super) async fn publish_last(&self, cell: &LeaseCell, state: &EstimateState) -> Infallible {
        state.indivisible(true);
        if state.is_published() {
            self.publish_estimate(cell, state).await;
        }
        std::future::pending().await
    }

    async fn publish_estimate(&self, cell: &LeaseCell, state: &EstimateState) {
        let estimate = self.estimate(state).await;
        let (tenant, lease) = (self.shared.tenant, cell.lease());
        state.state().is_published = true;
        let _ignored = self.shared.backend.publish_estimate(tenant, &lease, estimate).await;
    }
}
