//! What is around a process's engine: its line to the store, its events and its calendar. A planted
//! bug sits in the first two.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use shardwright_coordination::StateTransitionEvent;

use super::director::Director;
use super::listening;
use crate::ground::link::Link;
use crate::planted::stored::StoredBug;
use crate::planted::stored_tamper::StoredTamper;

impl Director {
    /// A process's line to the store.
    pub(super) fn link(&self, process: usize) -> Link {
        let (store, limits, clock) = (self.store.clone(), self.settings.store, self.clock.clone());
        let link = Link::new(store, limits, clock, self.weather.clone(), process);
        let Some(bug) = self.bug else { return link };
        let interval_ms = self.settings.engine.clock_mark_interval_ms;
        let (keys, rumours) = (self.keys.clone(), Arc::clone(&self.rumours));
        link.tampered(Arc::new(StoredTamper::new(bug, keys, interval_ms, rumours)))
    }

    /// Events since the last look, and those that a bug adds.
    pub(super) fn published(&mut self) -> Vec<StateTransitionEvent> {
        let rumours = &mut *self.rumours.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = std::mem::take(rumours);
        for process in &mut self.processes {
            events.extend(process.listener.as_mut().map(listening::heard).unwrap_or_default());
        }
        if self.bug == Some(StoredBug::ToldTwice) {
            events = events.into_iter().flat_map(|event| [event.clone(), event]).collect();
        }
        events
    }

    /// Notes how far ahead time may be by now.
    pub(super) fn look_at_calendars(&mut self) {
        let now_ms = self.clock.now_ms();
        let calendars = self
            .processes
            .iter()
            .map(|process| now_ms.saturating_add_signed(process.off_ms.load(Ordering::Relaxed)));
        let furthest = calendars.max().unwrap_or(now_ms);
        let interval_ms = self.settings.engine.clock_mark_interval_ms;
        self.ledger.books.ceiling.rise(now_ms, furthest, interval_ms);
    }
}
