//! A store that counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use shardwright_store::{
    Changes, Commit, CommitError, Key, Revision, ScanError, ScanFrom, ScanPage, Session,
    SessionError, SessionId, Snapshot, Store, StoreError, StoreLimits, StoreRange, WatchError,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    loads: Arc<AtomicU64>,
    scans: Arc<AtomicU64>,
    commits: Arc<AtomicU64>,
    conflicts: Arc<AtomicU64>,
}

/// Number of calls by kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Made {
    pub(crate) loads: u64,
    pub(crate) scans: u64,
    pub(crate) commits: u64,
    pub(crate) conflicts: u64,
}

impl Counts {
    /// Calls since the last `take`.
    pub(crate) fn take(&self) -> Made {
        let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Made {
            loads: take(&self.loads),
            scans: take(&self.scans),
            commits: take(&self.commits),
            conflicts: take(&self.conflicts),
        }
    }
}

pub(crate) struct Counted<S> {
    store: S,
    counts: Counts,
}

impl<S> Counted<S> {
    pub(crate) fn new(store: S) -> (Self, Counts) {
        let counts = Counts::default();
        (Self { store, counts: counts.clone() }, counts)
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<S: Store> Store for Counted<S> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        count(&self.counts.loads);
        self.store.load(keys).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        count(&self.counts.scans);
        self.store.scan(range, page).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        count(&self.counts.commits);
        let answer = self.store.commit(commit).await;
        if matches!(answer, Err(CommitError::Conflict(_))) {
            count(&self.counts.conflicts);
        }
        answer
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        self.store.watch(range, after).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        self.store.open_session(ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        self.store.keep_alive(session).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        self.store.close_session(session).await
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }
}
