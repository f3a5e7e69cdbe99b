//! Published events, compared with the history.

use std::collections::BTreeSet;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shardwright_coordination::{EventKind, RunTransition, StateTransitionEvent};
use shardwright_runs::{Delivery, EventStream};

use super::call_log::{CallLog, CallRecord};
use crate::oracle::{Finding, Oracle};
use crate::request::Request;
use crate::request::operation::{Acquire, ChangeRun, Claim};

pub(crate) const EVENTS: &Oracle = &Oracle::of_the_world(
    "events follow commits",
    "an event of a change that occurs once is published at most once, and the event of a new owner \
     only after its commit",
);

/// The events that are available now.
pub(super) fn delivered(listener: &mut EventStream) -> Vec<StateTransitionEvent> {
    let mut context = Context::from_waker(Waker::noop());
    let mut events = Vec::new();
    while let Poll::Ready(Some(delivered)) = pin!(listener.next()).poll(&mut context) {
        // A slow subscriber may miss events.
        if let Delivery::Event(event) = delivered {
            events.push((*event).clone());
        }
    }
    events
}

impl CallLog {
    /// Judges an event.
    pub(super) fn judge_event(&mut self, event: &StateTransitionEvent) -> Result<(), Finding> {
        let StateTransitionEvent { tenant, run, kind, .. } = event;
        let address = (*tenant, *run);
        if let EventKind::ShardAcquired { shard, fence_epoch, .. } = kind
            && !self.grants.contains_key(&(address, *shard, fence_epoch.as_raw()))
        {
            return Err(wrong(event, "before it was stored"));
        }
        let is_new = self.events.insert((address, format!("{kind:?}")));
        if happens_once(kind) && !is_new && !self.was_requested_twice(event) {
            return Err(wrong(event, "twice"));
        }
        Ok(())
    }

    /// Whether two calls may have made the same change in the same millisecond: two acquisitions
    /// for one worker, or two calls with one operation id. Both commits have the same bytes then,
    /// so a call whose answer was lost finds its change stored, whichever of the two was applied.
    fn was_requested_twice(&self, event: &StateTransitionEvent) -> bool {
        let address = (event.tenant, event.run);
        let Some(at_ms) = self.decided_at_ms(event) else { return false };
        let may_be_it = |call: &&CallRecord| {
            let not_after_ms = call.not_after.unwrap_or(self.records.clock).as_millis();
            (call.not_before_ms..=not_after_ms).contains(&at_ms)
        };
        let requests = self.calls.values().filter(may_be_it);
        let requests = requests.filter_map(|call| call.request_of(address));
        if let EventKind::ShardAcquired { shard, worker, .. } = &event.kind {
            let asks = |request: &&Request| match request {
                Request::Acquire(Acquire { key, worker: by }) => {
                    (key.shard, by) == (*shard, worker)
                }
                Request::Claim(Claim { worker: by, .. }) => by == worker,
                _ => false,
            };
            return requests.filter(asks).count() > 1;
        }
        let mut ops = BTreeSet::new();
        let emitting = requests.filter(|request| may_emit(request, &event.kind));
        emitting.filter_map(Request::op_id).any(|op| !ops.insert(op))
    }

    /// When the change that an event reports was decided. A grant's deadline shows it. Other events
    /// contain it.
    fn decided_at_ms(&self, event: &StateTransitionEvent) -> Option<u64> {
        let address = (event.tenant, event.run);
        let EventKind::ShardAcquired { shard, fence_epoch, .. } = &event.kind else {
            return Some(event.at.as_millis());
        };
        let granted = self.grants.get(&(address, *shard, fence_epoch.as_raw()))?;
        let run = self.model.run(address.0, address.1)?;
        let deadline_ms = granted.lease.deadline().as_millis();
        Some(deadline_ms.saturating_sub(run.config.lease_duration_ms.get()))
    }
}

/// Whether a request with an operation id may cause an event that happens once.
fn may_emit(request: &Request, kind: &EventKind) -> bool {
    let shard = request.shard().map(|key| key.shard);
    match (request, kind) {
        (
            Request::RegisterShards(_) | Request::CreateRunWithShards(_),
            EventKind::RunActivated { .. },
        ) => true,
        (Request::ChangeRun(ChangeRun { change, .. }), _) => matches!(
            (change, kind),
            (RunTransition::Complete, EventKind::RunCompleted)
                | (RunTransition::Fail, EventKind::RunFailed)
                | (RunTransition::Cancel, EventKind::RunCancelled)
        ),
        (Request::Complete(_), EventKind::ShardCompleted { shard: of })
        | (Request::UnparkShard(_), EventKind::ShardUnparked { shard: of, .. })
        | (Request::SplitReplace(_), EventKind::ShardSplit { parent: of, .. })
        | (Request::SplitResidual(_), EventKind::ShardResidualCreated { parent: of, .. }) => {
            shard == Some(*of)
        }
        _ => false,
    }
}

fn wrong(event: &StateTransitionEvent, how: &str) -> Finding {
    let StateTransitionEvent { run, kind, .. } = event;
    Finding { oracle: EVENTS.name, text: format!("{kind:?} of run {run} was published {how}") }
}

/// The creation of a run is not among these: two requests at the same moment may both find the run
/// as they wanted it.
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
