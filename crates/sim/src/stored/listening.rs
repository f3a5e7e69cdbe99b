//! What processes tell their listeners, held against the history.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shardwright_coordination::{EventKind, StateTransitionEvent};
use shardwright_engine::{Heard, Listener};

use super::books::Address;
use super::ledger::{CallRecord, Ledger};
use crate::oracle::{Finding, Oracle};
use crate::request::Request;

pub(crate) const TOLD: &Oracle = &Oracle::of_the_world(
    "events of what is stored",
    "what happens once is told once at most, and a new owner only after it is stored",
);

/// What can be heard now.
pub(super) fn heard(listener: &mut Listener) -> Vec<StateTransitionEvent> {
    let mut context = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    while let Poll::Ready(Some(heard)) = pin!(listener.next()).poll(&mut context) {
        // One that is too slow misses some, which is no lie.
        if let Heard::Event(event) = heard {
            events.push((*event).clone());
        }
    }
    events
}

impl Ledger {
    /// Judges an event.
    pub(super) fn told(&mut self, event: &StateTransitionEvent) -> Result<(), Finding> {
        let StateTransitionEvent { tenant, run, kind, .. } = event;
        let address = (*tenant, *run);
        if let EventKind::ShardAcquired { shard, fence_epoch, .. } = kind
            && !self.grants.contains_key(&(address, *shard, fence_epoch.as_raw()))
        {
            return Err(wrong(event, "and is not stored"));
        }
        let is_new = self.events.insert((address, format!("{kind:?}")));
        if happens_once(kind) && !is_new && !self.was_asked_twice(address, kind) {
            return Err(wrong(event, "twice"));
        }
        Ok(())
    }

    /// Whether a worker may have asked twice in the moment in which it was given a shard. Then both
    /// find the shard as they wanted it, and nothing tells whose doing that is.
    fn was_asked_twice(&self, address: Address, kind: &EventKind) -> bool {
        let EventKind::ShardAcquired { shard, worker, fence_epoch } = kind else { return false };
        let granted = self.grants.get(&(address, *shard, fence_epoch.as_raw()));
        let run = self.model.run(address.0, address.1);
        let (Some(granted), Some(run)) = (granted, run) else { return false };
        let deadline_ms = granted.lease.deadline().as_millis();
        let at_ms = deadline_ms.saturating_sub(run.config.lease_duration_ms.get());
        let asks = |call: &CallRecord| match call.request_of(address) {
            Some(Request::Acquire { key, worker: by }) => (key.shard, by) == (*shard, worker),
            Some(Request::Claim { worker: by, .. }) => by == worker,
            _ => false,
        };
        let may_be_it = |call: &&CallRecord| {
            let not_after_ms = call.not_after.unwrap_or(self.books.clock).as_millis();
            (call.not_before_ms..=not_after_ms).contains(&at_ms) && asks(call)
        };
        self.calls.values().filter(may_be_it).count() > 1
    }
}

fn wrong(event: &StateTransitionEvent, how: &str) -> Finding {
    let StateTransitionEvent { run, kind, .. } = event;
    Finding { oracle: TOLD.name, text: format!("{kind:?} of run {run} was told {how}") }
}

/// A run can be asked for twice in the same moment, and both who asked may find it as they wanted
/// it, so that it is not among these.
const fn happens_once(kind: &EventKind) -> bool {
    matches!(
        kind,
        EventKind::ShardAcquired { .. }
            | EventKind::ShardResidualCreated { .. }
            | EventKind::ShardUnparked { .. }
            | EventKind::ShardCompleted { .. }
            | EventKind::ShardSplit { .. }
            | EventKind::RunActivated { .. }
            | EventKind::RunCompleted
            | EventKind::RunFailed
            | EventKind::RunCancelled
    )
}
