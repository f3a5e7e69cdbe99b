use std::time::Duration;

use shardwright_cluster::{Cluster, JoinError, Serving};
use shardwright_contracts::Env;

use super::SessionAgent;
use crate::notices::{Activity, NoticeLog};
use crate::waiting::within;

impl SessionAgent {
    /// Cancels all calls as soon as the session may have ended, and returns when it has.
    ///
    /// A process that was suspended may be too late for this. So admission and acknowledgement of
    /// calls check the time themselves.
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
                None => self.host.serving().cancel_calls(),
            }
            if serving.changed().await.is_err() {
                return;
            }
        }
    }
}

/// The first and the longest pause after a failed join.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Joins a cluster again, however long that takes, because the store may be unreachable. Returns
/// `None` if the cluster was deleted.
pub(crate) async fn join_again<M, F>(
    cluster: &Cluster,
    notice_log: &NoticeLog,
    join: impl Fn() -> F,
) -> Option<M>
where
    F: Future<Output = Result<M, JoinError>>,
{
    let (mut pause, longest) = PAUSES;
    loop {
        match join().await {
            Ok(membership) => return Some(membership),
            Err(JoinError::Deleted) => return None,
            Err(error) => {
                notice_log.record(Activity::Join, error);
                cluster.env().sleep(pause).await;
            }
        }
        pause = (pause * 2).min(longest);
    }
}
