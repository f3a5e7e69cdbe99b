use std::sync::Arc;
use std::time::Duration;

use crate::commit::Commit;
use crate::error::{CommitError, ScanError, SessionError, StoreError, WatchError};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::store::{Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store};
use crate::watch::Changes;

/// A shared handle is a store.
impl<S: Store> Store for Arc<S> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        S::load(self, keys).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        S::scan(self, range, page).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        S::commit(self, commit).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        S::watch(self, range, after).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        S::open_session(self, ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        S::keep_alive(self, session).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        S::close_session(self, session).await
    }

    fn limits(&self) -> StoreLimits {
        S::limits(self)
    }
}
