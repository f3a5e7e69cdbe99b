use std::time::Duration;

use shardwright_cluster::{Cluster, JoinError};
use shardwright_contracts::Env;

use crate::notices::{Activity, NoticeLog};

/// The first pause after a join that failed, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Joins a cluster again, however long that takes: the store may be out of reach.
pub(crate) async fn join_again<M, F>(
    cluster: &Cluster,
    notice_log: &NoticeLog,
    join: impl Fn() -> F,
) -> M
where
    F: Future<Output = Result<M, JoinError>>,
{
    let (mut pause, longest) = PAUSES;
    loop {
        match join().await {
            Ok(membership) => return membership,
            Err(error) => {
                notice_log.record(Activity::Join, error);
                cluster.env().sleep(pause).await;
            }
        }
        pause = (pause * 2).min(longest);
    }
}
