//! Reports of activities that keep failing, for the operator of a process.
//!
//! A node retries while its store is unreachable. If that lasts, the operator needs the reason.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::Env;
use shardwright_engine::watch;

/// Shortest interval between two notices of one activity.
const EVERY: Duration = Duration::from_secs(10);
/// How many notices are kept for readers that are late.
const KEPT: usize = 16;

/// What a node or a gate does by itself. All but `Deactivate` are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// Join the cluster again.
    Join,
    /// Announce that the node is leaving.
    Leave,
    /// Become the leader, or plan as the leader.
    Lead,
    /// Claim shards.
    Claim,
    /// Release shards.
    Release,
    /// Cancel a release with unknown outcome.
    Keep,
    /// Load the objects that every shard has.
    Load,
    /// Deactivate the objects of a shard that is handed over.
    Deactivate,
}

impl Activity {
    /// The verb, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Leave => "leave",
            Self::Lead => "lead",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Keep => "keep",
            Self::Load => "load",
            Self::Deactivate => "deactivate",
        }
    }
}

/// A failure of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryNotice {
    /// Sequence number within the process, from 1.
    pub number: u64,
    /// What failed.
    pub activity: Activity,
    /// The latest error.
    pub why: String,
    /// Number of failures since the previous notice of this activity.
    pub times: u64,
}

/// The latest notices of a process.
#[derive(Clone, Debug, Default)]
pub struct RetryNotices {
    latest: VecDeque<RetryNotice>,
}

impl RetryNotices {
    /// Notices with a higher sequence number, as far as they are still kept.
    pub fn after(&self, number: u64) -> impl Iterator<Item = &RetryNotice> {
        self.latest.iter().filter(move |notice| notice.number > number)
    }
}

/// Records failures and publishes notices.
pub(crate) struct NoticeLog {
    env: Arc<dyn Env>,
    published: watch::Sender<RetryNotices>,
    /// Time of each activity's latest notice, and the number of failures since.
    quiet: Mutex<BTreeMap<Activity, (Duration, u64)>>,
}

impl NoticeLog {
    pub(crate) fn new(env: Arc<dyn Env>) -> Self {
        Self {
            env,
            published: watch::Sender::new(RetryNotices::default()),
            quiet: Mutex::default(),
        }
    }

    pub(crate) fn notices(&self) -> watch::Receiver<RetryNotices> {
        self.published.subscribe()
    }

    /// Counts a failure, and publishes a notice unless the activity had one recently.
    pub(crate) fn record(&self, activity: Activity, why: impl fmt::Display) {
        let Some(times) = self.count(activity) else { return };
        let why = shardwright_api::short(why.to_string());
        self.published.send_modify(|notices| {
            let number = notices.latest.back().map_or(0, |last| last.number).saturating_add(1);
            notices.latest.push_back(RetryNotice { number, activity, why, times });
            if notices.latest.len() > KEPT {
                notices.latest.pop_front();
            }
        });
    }

    /// Number of failures that a notice reports now; none while the activity is quiet.
    fn count(&self, activity: Activity) -> Option<u64> {
        let now = self.env.monotonic();
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        match quiet.get_mut(&activity) {
            Some((at, times)) if now.saturating_sub(*at) < EVERY => {
                *times = times.saturating_add(1);
                None
            }
            Some((at, times)) => {
                *at = now;
                Some(std::mem::take(times).saturating_add(1))
            }
            None => {
                quiet.insert(activity, (now, 0));
                Some(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::PausedEnv;

    fn published(log: &NoticeLog, after: u64) -> Vec<(Activity, String, u64)> {
        let notices = log.notices().borrow().clone();
        notices.after(after).map(|one| (one.activity, one.why.clone(), one.times)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_activity_has_one_notice_per_interval() {
        let log = NoticeLog::new(Arc::new(PausedEnv::new()));
        for _ in 0..50 {
            log.record(Activity::Claim, "no store");
        }
        log.record(Activity::Join, "no store either");
        let first = (Activity::Claim, "no store".to_owned(), 1);
        let second = (Activity::Join, "no store either".to_owned(), 1);
        assert_eq!(published(&log, 0), [first, second]);
        tokio::time::sleep(EVERY).await;
        log.record(Activity::Claim, "still none");
        assert_eq!(published(&log, 2), [(Activity::Claim, "still none".to_owned(), 50)]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_latest_notices_are_kept() {
        let log = NoticeLog::new(Arc::new(PausedEnv::new()));
        for _ in 0..3 * KEPT {
            log.record(Activity::Load, "no");
            tokio::time::sleep(EVERY).await;
        }
        let notices = log.notices().borrow().clone();
        let numbers: Vec<u64> = notices.after(0).map(|one| one.number).collect();
        assert_eq!(numbers, (33..=48).collect::<Vec<_>>());
    }
}
