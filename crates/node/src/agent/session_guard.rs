use shardwright_cluster::Serving;

use super::SessionAgent;
use crate::wait::within;

impl SessionAgent {
    /// Breaks off everything as soon as the session may have ended, and returns when it has.
    ///
    /// What comes too late for this, because the whole process stood still, is caught where calls
    /// are admitted and acknowledged: there the time itself is looked at.
    pub(super) async fn watch_session(&self) {
        let mut serving = self.membership.serving_changes();
        loop {
            let until = match *serving.borrow_and_update() {
                Serving::Until(until) => until,
                Serving::Ended => return,
            };
            match within(self.env(), until, serving.changed()).await {
                Some(Ok(())) => continue,
                Some(Err(_)) => return,
                None => self.host.serving().break_off(),
            }
            if serving.changed().await.is_err() {
                return;
            }
        }
    }
}
