//! Holds that go on without a slot, because all their items wait for retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

use crate::error::WorkerError;
use crate::worker::Shared;

/// Most holds of a worker without a slot. Each renews a lease.
const HOLDS_MAX: usize = 64;

/// How a hold without a slot ended.
pub(crate) type Ended = Result<(), WorkerError>;

/// Counts the holds without a slot.
#[derive(Debug)]
pub(crate) struct Background {
    begun: AtomicUsize,
    ended: AtomicUsize,
    results: mpsc::UnboundedSender<Ended>,
}

impl Background {
    /// A counter without holds, and the results of those to come.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Ended>) {
        let (results, receiver) = mpsc::unbounded_channel();
        (Self { begun: AtomicUsize::new(0), ended: AtomicUsize::new(0), results }, receiver)
    }

    /// Number of holds that were begun. Each sends one result.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether one more hold may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.begun().saturating_sub(self.ended.load(Ordering::Acquire)) < HOLDS_MAX
    }
}

/// The task of one hold without a slot. Dropping it sends the result.
pub(crate) struct BackgroundTask {
    shared: Arc<Shared>,
    result: Ended,
}

impl BackgroundTask {
    /// Counts a hold that begins.
    pub(crate) fn begin(shared: Arc<Shared>) -> Self {
        shared.background.begun.fetch_add(1, Ordering::AcqRel);
        // What is left of it if the task panics.
        Self { shared, result: Err(WorkerError::SlotDied) }
    }

    /// Sets the result.
    pub(crate) fn end(mut self, result: Ended) {
        self.result = result;
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        let Background { ended, results, .. } = &self.shared.background;
        ended.fetch_add(1, Ordering::AcqRel);
        // The caller of the worker may have dropped the receiver.
        let _gone = results.send(std::mem::replace(&mut self.result, Ok(())));
    }
}
