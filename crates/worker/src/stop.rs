//! Telling a worker to stop.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Stops workers gently: they finish the items that they are working on, commit, and give shards
/// back. What has failed and would be tried again is left for later, unless the cursor is past it.
/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct StopSignal {
    state: Arc<State>,
}

/// Whoever waits is woken in the order in which the waiting began, which tokio's `watch` does not
/// promise, and so a simulated run with the same seed is the same run.
#[derive(Debug, Default)]
struct State {
    is_stopped: AtomicBool,
    stopped: Notify,
}

impl StopSignal {
    /// Tells all to stop.
    pub fn stop(&self) {
        self.state.is_stopped.store(true, Ordering::Release);
        self.state.stopped.notify_waiters();
    }

    /// Whether they were told.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state.is_stopped.load(Ordering::Acquire)
    }

    /// Waits until they are told.
    pub async fn stopped(&self) {
        let mut told = pin!(self.state.stopped.notified());
        // In line before the look, so that nothing comes in between.
        told.as_mut().enable();
        if !self.is_stopped() {
            told.await;
        }
    }
}
