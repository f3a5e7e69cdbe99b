//! Events, told after what they are about is stored.

use std::sync::Arc;

use shardwright_coordination::{EventCollector, StateTransitionEvent};
use tokio::sync::broadcast;

/// Tells events to whoever listens, and waits for nobody.
pub(crate) struct Publisher {
    sender: broadcast::Sender<Arc<StateTransitionEvent>>,
}

/// Hears events from the moment it was made. One that is too slow misses some, and is told so.
#[derive(Debug)]
pub struct Listener {
    receiver: broadcast::Receiver<Arc<StateTransitionEvent>>,
}

/// What a listener hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(Arc<StateTransitionEvent>),
    /// So many were missed.
    Missed(u64),
}

impl Publisher {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { sender: broadcast::Sender::new(capacity.max(1)) }
    }

    pub(crate) fn listen(&self) -> Listener {
        Listener { receiver: self.sender.subscribe() }
    }

    /// A collector for one operation; it costs nothing if nobody listens.
    pub(crate) fn collector(&self) -> EventCollector {
        if self.sender.receiver_count() == 0 {
            EventCollector::disabled()
        } else {
            EventCollector::new()
        }
    }

    pub(crate) fn publish(&self, mut events: EventCollector) {
        events.drain_with(|event| {
            // Nobody may be listening any more, which is fine.
            let _listeners = self.sender.send(Arc::new(event));
        });
    }
}

impl Listener {
    /// The next event; none when the coordinator is gone.
    pub async fn next(&mut self) -> Option<Heard> {
        match self.receiver.recv().await {
            Ok(event) => Some(Heard::Event(event)),
            Err(broadcast::error::RecvError::Lagged(missed)) => Some(Heard::Missed(missed)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}
