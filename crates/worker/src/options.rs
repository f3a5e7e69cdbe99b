//! How a worker works, and how often it retries.

use std::time::Duration;

use crate::connector::PageLimit;
use crate::extent::MAX_EXTENTS;

/// Options of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Shards held at a time.
    pub slots: usize,
    /// Batches of one shard processed at a time.
    pub in_flight: usize,
    /// Longest time between two commits. What was done since the last is repeated if the worker
    /// is killed.
    pub commit_interval: Duration,
    /// Most items between two commits.
    pub commit_items: u64,
    /// Retries of failing items.
    pub retry: RetryPolicy,
    /// Limits of a page, which is read ahead.
    pub page: PageLimit,
    /// Shortest time that each part of a split shard should take.
    pub least_split: Duration,
    /// Time between two published estimates.
    pub estimate_interval: Duration,
    /// Most extents of earlier holders that a shard's cursor names, up to
    /// [`MAX_EXTENTS`](crate::extent::MAX_EXTENTS). A holder that finds more copies them into one.
    pub extents_max: usize,
    /// Acquires in a row without progress after which a shard's next item is parked unprocessed,
    /// as the item that kills workers. At least two: once beside other shards, once alone. Raise it
    /// where workers are often killed for other reasons.
    pub crash_limit: u32,
    /// How long the store may fail before the worker returns the error.
    pub store_timeout: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            slots: 1,
            in_flight: 1,
            commit_interval: Duration::from_millis(100),
            commit_items: 5_000,
            retry: RetryPolicy::default(),
            page: PageLimit::items(512),
            least_split: Duration::from_millis(100),
            estimate_interval: Duration::from_secs(1),
            extents_max: MAX_EXTENTS,
            crash_limit: 10,
            store_timeout: Duration::from_secs(120),
        }
    }
}

/// How often an item is retried before it counts as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries after the first.
    pub retries: u32,
    /// Wait before the first retry.
    pub first_wait: Duration,
    /// Longest wait.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let (first_wait, longest_wait) = (Duration::from_millis(200), Duration::from_secs(30));
        Self { retries: 2, first_wait, longest_wait }
    }
}

impl RetryPolicy {
    /// The wait before retry number `retry`, counted from 1. It doubles each time, and `chance`
    /// takes off up to a half, so that items that failed together are not retried together.
    #[must_use]
    pub fn wait(&self, retry: u32, chance: u64) -> Duration {
        let doublings = retry.saturating_sub(1).min(31);
        let longest = self.first_wait.saturating_mul(1 << doublings).min(self.longest_wait);
        let thousandths = u32::try_from(chance % 500).unwrap_or_default();
        longest.saturating_sub(longest / 1_000 * thousandths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let policy = RetryPolicy::default();
        let waits = [1, 2, 3, 8, 9, 40].map(|retry| policy.wait(retry, 0).as_millis());
        assert_eq!(waits, [200, 400, 800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn jitter_shortens_a_wait_by_less_than_a_half() {
        let policy = RetryPolicy::default();
        for chance in 0..2_000 {
            let wait = policy.wait(1, chance).as_millis();
            assert!((100..=200).contains(&wait), "{wait}");
        }
    }
}
