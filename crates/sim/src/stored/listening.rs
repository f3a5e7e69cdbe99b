//! What processes tell their listeners, held against the history.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shardwright_coordination::{EventKind, StateTransitionEvent};
use shardwright_engine::{Heard, Listener};

use super::ledger::Ledger;
use crate::oracle::{Finding, Oracle};

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
        if happens_once(kind) && !self.events.insert((address, format!("{kind:?}"))) {
            return Err(wrong(event, "twice"));
        }
        Ok(())
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
