//! Events, published once their change is stored.

use std::sync::Arc;

use shardwright_coordination::{EventCollector, StateTransitionEvent};
use tokio::sync::broadcast;

/// Sends events to all subscribers, and waits for none.
pub(crate) struct Publisher {
    sender: broadcast::Sender<Arc<StateTransitionEvent>>,
}

/// Events since the subscription. A reader that is too slow loses events, and learns how many.
#[derive(Debug)]
pub struct EventStream {
    receiver: broadcast::Receiver<Arc<StateTransitionEvent>>,
}

/// An item of an event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// An event.
    Event(Arc<StateTransitionEvent>),
    /// Number of events that were dropped because the reader was too slow.
    Lagged(u64),
}

impl Publisher {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { sender: broadcast::Sender::new(capacity.max(1)) }
    }

    pub(crate) fn subscribe(&self) -> EventStream {
        EventStream { receiver: self.sender.subscribe() }
    }

    /// A collector for one operation. Without subscribers it collects nothing.
    pub(crate) fn collector(&self) -> EventCollector {
        if self.sender.receiver_count() == 0 {
            EventCollector::disabled()
        } else {
            EventCollector::new()
        }
    }

    pub(crate) fn publish(&self, mut events: EventCollector) {
        events.drain_with(|event| {
            // All subscribers may have been dropped.
            let _subscribers = self.sender.send(Arc::new(event));
        });
    }
}

impl EventStream {
    /// The next event; none when the coordinator is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        match self.receiver.recv().await {
            Ok(event) => Some(Delivery::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Delivery::Lagged(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
