//! Events: changes as data.
//!
//! Operations describe their changes and never act on them. A driver publishes the events after the
//! change is stored, so no event precedes its change.

use std::fmt;

use shardwright_contracts::{
    FenceEpoch, LogicalTime, Redacted, RunId, ShardId, TenantId, WorkerId,
};

use crate::status::ParkReason;

/// A key that may be secret. Code can read it, but it is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedKey(pub Option<Box<[u8]>>);

impl fmt::Debug for RedactedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_deref().map(Redacted).fmt(f)
    }
}

/// The kind of a change. Deliberately not serializable: keys would leave unredacted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are clear, and each operation documents its event")]
pub enum EventKind {
    ShardAcquired { shard: ShardId, worker: WorkerId, fence_epoch: FenceEpoch },
    ShardCheckpointed { shard: ShardId, last_key: RedactedKey },
    ShardResidualCreated { parent: ShardId, residual: ShardId },
    ShardUnparked { shard: ShardId, new_fence_epoch: FenceEpoch },
    ShardLeaseRenewed { shard: ShardId, new_deadline: LogicalTime },
    ShardReleased { shard: ShardId },
    SplitRequested { shard: ShardId, requester: WorkerId },
    SplitDeclined { shard: ShardId, not_before: LogicalTime },
    ShardCompleted { shard: ShardId },
    ShardParked { shard: ShardId, reason: ParkReason },
    ShardSplit { parent: ShardId, children: Vec<ShardId> },
    RunCreated,
    RunActivated { shard_count: u32 },
    RunPaused,
    RunResumed,
    RunCompleted,
    RunFailed,
    RunCancelled,
}

impl EventKind {
    /// Whether it concerns a shard.
    #[must_use]
    pub const fn is_shard_event(&self) -> bool {
        match self {
            Self::ShardAcquired { .. }
            | Self::ShardCheckpointed { .. }
            | Self::ShardResidualCreated { .. }
            | Self::ShardUnparked { .. }
            | Self::ShardLeaseRenewed { .. }
            | Self::ShardReleased { .. }
            | Self::SplitRequested { .. }
            | Self::SplitDeclined { .. }
            | Self::ShardCompleted { .. }
            | Self::ShardParked { .. }
            | Self::ShardSplit { .. } => true,
            Self::RunCreated
            | Self::RunActivated { .. }
            | Self::RunPaused
            | Self::RunResumed
            | Self::RunCompleted
            | Self::RunFailed
            | Self::RunCancelled => false,
        }
    }

    /// Whether it concerns a run.
    #[must_use]
    pub const fn is_run_event(&self) -> bool {
        !self.is_shard_event()
    }

    /// Whether it ended its shard or run.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        match self {
            Self::ShardCompleted { .. }
            | Self::ShardParked { .. }
            | Self::ShardSplit { .. }
            | Self::RunCompleted
            | Self::RunFailed
            | Self::RunCancelled => true,
            Self::ShardAcquired { .. }
            | Self::ShardCheckpointed { .. }
            | Self::ShardResidualCreated { .. }
            | Self::ShardUnparked { .. }
            | Self::ShardLeaseRenewed { .. }
            | Self::ShardReleased { .. }
            | Self::SplitRequested { .. }
            | Self::SplitDeclined { .. }
            | Self::RunCreated
            | Self::RunActivated { .. }
            | Self::RunPaused
            | Self::RunResumed => false,
        }
    }
}

/// A change of a run or shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTransitionEvent {
    /// The tenant.
    pub tenant: TenantId,
    /// The run.
    pub run: RunId,
    /// When it happened.
    pub at: LogicalTime,
    /// What changed.
    pub kind: EventKind,
}

/// Collects the events of operations of one tenant.
#[derive(Clone, Debug, Default)]
pub struct EventCollector {
    events: Vec<StateTransitionEvent>,
    capacity_max: Option<usize>,
    /// The tenant of the first event. Draining does not reset it.
    tenant: Option<TenantId>,
}

impl EventCollector {
    /// A collector without a limit.
    #[must_use]
    pub const fn new() -> Self {
        Self { events: Vec::new(), capacity_max: None, tenant: None }
    }

    /// A collector without a limit, with room for `capacity` events.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { events: Vec::with_capacity(capacity), capacity_max: None, tenant: None }
    }

    /// A collector of at most `max` events. Later ones are dropped.
    #[must_use]
    pub const fn with_max_capacity(max: usize) -> Self {
        Self { events: Vec::new(), capacity_max: Some(max), tenant: None }
    }

    /// A collector that drops all events at no cost.
    #[must_use]
    pub const fn disabled() -> Self {
        Self::with_max_capacity(0)
    }

    /// Adds an event. Returns whether there was room.
    ///
    /// # Panics
    ///
    /// If an earlier event, even a drained one, belonged to another tenant. A collector serves one
    /// tenant, because mixed events could reach the wrong tenant.
    pub fn emit(&mut self, event: StateTransitionEvent) -> bool {
        self.emit_with(event.tenant, || event)
    }

    /// Like [`EventCollector::emit`], but makes the event only if there is room.
    pub(crate) fn emit_with(
        &mut self,
        tenant: TenantId,
        event: impl FnOnce() -> StateTransitionEvent,
    ) -> bool {
        // Checked even without room: a full collector must not hide a bug.
        assert!(*self.tenant.get_or_insert(tenant) == tenant, "a collector serves one tenant");
        if self.capacity_max.is_some_and(|max| self.events.len() >= max) {
            return false;
        }
        self.events.push(event());
        true
    }

    /// Removes and returns the events.
    pub fn drain(&mut self) -> Vec<StateTransitionEvent> {
        std::mem::take(&mut self.events)
    }

    /// Passes each event to `consume` and keeps the memory for later ones.
    pub fn drain_with(&mut self, consume: impl FnMut(StateTransitionEvent)) {
        self.events.drain(..).for_each(consume);
    }

    /// The number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &StateTransitionEvent> {
        self.events.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tenant: u8, kind: EventKind) -> StateTransitionEvent {
        let tenant = TenantId::from_bytes([tenant; 32]);
        StateTransitionEvent { tenant, run: RunId::from_raw(1), at: LogicalTime::ZERO, kind }
    }

    #[test]
    fn bounded_collector_drops_later_events() {
        let mut events = EventCollector::with_max_capacity(2);
        assert!(events.emit(event(1, EventKind::RunCreated)));
        assert!(events.emit(event(1, EventKind::RunPaused)));
        assert!(!events.emit(event(1, EventKind::RunResumed)));
        let kinds: Vec<_> = events.iter().map(|event| event.kind.clone()).collect();
        assert_eq!(kinds, [EventKind::RunCreated, EventKind::RunPaused]);
        assert!(!EventCollector::disabled().emit(event(1, EventKind::RunCreated)));
    }

    #[test]
    fn drain_empties_and_keeps_the_order() {
        let mut events = EventCollector::with_capacity(4);
        assert!(events.is_empty());
        events.emit(event(1, EventKind::RunCreated));
        events.emit(event(1, EventKind::RunFailed));
        assert_eq!((events.len(), events.is_empty()), (2, false));
        let mut seen = Vec::new();
        events.drain_with(|event| seen.push(event.kind));
        assert_eq!(seen, [EventKind::RunCreated, EventKind::RunFailed]);
        assert!(events.is_empty());
        events.emit(event(1, EventKind::RunCancelled));
        assert_eq!(events.drain(), [event(1, EventKind::RunCancelled)]);
        assert!(events.is_empty());
    }

    #[test]
    #[should_panic(expected = "one tenant")]
    fn collector_panics_on_a_second_tenant() {
        let mut events = EventCollector::new();
        events.emit(event(1, EventKind::RunCreated));
        // Not even after the events of the first were drained.
        assert_eq!(events.drain().len(), 1);
        events.emit(event(2, EventKind::RunCreated));
    }

    #[test]
    #[should_panic(expected = "one tenant")]
    fn full_collector_panics_on_a_second_tenant() {
        let mut events = EventCollector::with_max_capacity(1);
        assert!(events.emit(event(1, EventKind::RunCreated)));
        assert!(!events.emit(event(1, EventKind::RunPaused)));
        events.emit(event(2, EventKind::RunCreated));
    }

    #[test]
    fn kinds_are_classified() {
        let (shard, fence) = (ShardId::SINGLE, FenceEpoch::INITIAL);
        let worker = WorkerId::from_raw(1);
        let going_on = [
            EventKind::ShardAcquired { shard, worker, fence_epoch: fence },
            EventKind::ShardCheckpointed { shard, last_key: RedactedKey(None) },
            EventKind::ShardResidualCreated { parent: shard, residual: shard },
            EventKind::ShardUnparked { shard, new_fence_epoch: fence },
            EventKind::ShardLeaseRenewed { shard, new_deadline: LogicalTime::ZERO },
            EventKind::ShardReleased { shard },
            EventKind::SplitRequested { shard, requester: worker },
            EventKind::SplitDeclined { shard, not_before: LogicalTime::ZERO },
        ];
        let ended = [
            EventKind::ShardCompleted { shard },
            EventKind::ShardParked { shard, reason: ParkReason::Other },
            EventKind::ShardSplit { parent: shard, children: vec![shard] },
        ];
        assert!(going_on.iter().chain(&ended).all(|kind| kind.is_shard_event()));
        assert!(going_on.iter().all(|kind| !kind.is_terminal()));
        assert!(ended.iter().all(EventKind::is_terminal));
        let going_on = [
            EventKind::RunCreated,
            EventKind::RunActivated { shard_count: 1 },
            EventKind::RunPaused,
            EventKind::RunResumed,
        ];
        let ended = [EventKind::RunCompleted, EventKind::RunFailed, EventKind::RunCancelled];
        assert!(going_on.iter().chain(&ended).all(EventKind::is_run_event));
        assert!(going_on.iter().all(|kind| !kind.is_terminal()));
        assert!(ended.iter().all(EventKind::is_terminal));
    }

    #[test]
    fn keys_are_not_printed() {
        let key = RedactedKey(Some(b"secret"[..].into()));
        assert_eq!(format!("{key:?} {:?}", RedactedKey(None)), "Some(<6 bytes>) None");
    }
}
