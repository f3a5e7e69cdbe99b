//! Telling a worker to stop.

use std::sync::Arc;

use tokio::sync::watch;

/// Stops workers gently: they finish the items they have begun, commit, and give shards back.
/// Clones are the same.
#[derive(Clone, Debug)]
pub struct Stop {
    sender: Arc<watch::Sender<bool>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { sender: Arc::new(watch::Sender::new(false)) }
    }
}

impl Stop {
    /// Tells all to stop.
    pub fn stop(&self) {
        self.sender.send_replace(true);
    }

    /// Whether they were told.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.sender.borrow()
    }

    /// Waits until they are told.
    pub async fn stopped(&self) {
        let mut receiver = self.sender.subscribe();
        // The sender lives as long as this does.
        let _told = receiver.wait_for(|stopped| *stopped).await;
    }
}
