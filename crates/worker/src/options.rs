use std::time::Duration;

use crate::connector::PageLimit;
use crate::retry::RetryPolicy;

/// How a worker works. The defaults suit most.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// How many shards it works on at a time.
    pub slots: usize,
    /// How many batches of one shard it works on at a time.
    pub in_flight: usize,
    /// After how long what is done is committed. What is done since then is done again if the
    /// worker is killed.
    pub commit_interval: Duration,
    /// After how many items it is committed even if that time is not over.
    pub commit_items: u64,
    /// How often a failing item is tried.
    pub retry: RetryPolicy,
    /// How much of the source is read ahead.
    pub page: PageLimit,
    /// When the rest of a shard is too small to be divided.
    pub least_split: Duration,
    /// How often a holder tells how far it is, at most.
    pub estimate_interval: Duration,
    /// How often in a row a shard may be acquired without progress before its next item is taken
    /// for what kills workers, and set aside unseen. Two at least: once in company, once alone.
    /// Whoever kills workers on purpose should allow for more: nobody can tell why one was lost.
    pub crash_limit: u32,
    /// How long a store may fail to answer before the worker gives up.
    pub patience: Duration,
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
            crash_limit: 10,
            patience: Duration::from_secs(120),
        }
    }
}
