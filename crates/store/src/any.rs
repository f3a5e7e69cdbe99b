//! A store whose implementation is chosen at run time.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::commit::Commit;
use crate::error::{CommitError, ScanError, SessionError, StoreError, WatchError};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::store::{Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store};
use crate::watch::Changes;

/// Any store. A clone is another handle to the same one.
///
/// Code that is written against this type is compiled once, not once per store. Each call costs
/// one allocation for its future.
#[derive(Clone)]
pub struct AnyStore {
    store: Arc<dyn Erased>,
}

impl AnyStore {
    /// Erases the type of a store. An `AnyStore` is returned as it is, not wrapped again.
    #[must_use]
    pub fn new<S: Store>(store: S) -> Self {
        match (&store as &dyn Any).downcast_ref::<Self>() {
            Some(erased) => erased.clone(),
            None => Self { store: Arc::new(store) },
        }
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyStore").finish_non_exhaustive()
    }
}

impl Store for AnyStore {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        self.store.load_boxed(keys).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        self.store.scan_boxed(range, page).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        self.store.commit_boxed(commit).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        self.store.watch_boxed(range, after).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        self.store.open_session_boxed(ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        self.store.keep_alive_boxed(session).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        self.store.close_session_boxed(session).await
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits_of()
    }
}

type Boxed<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// [`Store`] in the form that a trait object needs. Every store has it.
trait Erased: Send + Sync {
    fn load_boxed<'a>(&'a self, keys: &'a [Key]) -> Boxed<'a, Snapshot, StoreError>;
    fn scan_boxed<'a>(
        &'a self,
        range: &'a StoreRange,
        page: ScanFrom,
    ) -> Boxed<'a, ScanPage, ScanError>;
    fn commit_boxed(&self, commit: Commit) -> Boxed<'_, Revision, CommitError>;
    fn watch_boxed<'a>(
        &'a self,
        range: &'a StoreRange,
        after: Revision,
    ) -> Boxed<'a, Changes, WatchError>;
    fn open_session_boxed(&self, ttl: Duration) -> Boxed<'_, Session, SessionError>;
    fn keep_alive_boxed(&self, session: SessionId) -> Boxed<'_, (), SessionError>;
    fn close_session_boxed(&self, session: SessionId) -> Boxed<'_, (), SessionError>;
    fn limits_of(&self) -> StoreLimits;
}

impl<S: Store> Erased for S {
    fn load_boxed<'a>(&'a self, keys: &'a [Key]) -> Boxed<'a, Snapshot, StoreError> {
        Box::pin(self.load(keys))
    }

    fn scan_boxed<'a>(
        &'a self,
        range: &'a StoreRange,
        page: ScanFrom,
    ) -> Boxed<'a, ScanPage, ScanError> {
        Box::pin(self.scan(range, page))
    }

    fn commit_boxed(&self, commit: Commit) -> Boxed<'_, Revision, CommitError> {
        Box::pin(self.commit(commit))
    }

    fn watch_boxed<'a>(
        &'a self,
        range: &'a StoreRange,
        after: Revision,
    ) -> Boxed<'a, Changes, WatchError> {
        Box::pin(self.watch(range, after))
    }

    fn open_session_boxed(&self, ttl: Duration) -> Boxed<'_, Session, SessionError> {
        Box::pin(self.open_session(ttl))
    }

    fn keep_alive_boxed(&self, session: SessionId) -> Boxed<'_, (), SessionError> {
        Box::pin(self.keep_alive(session))
    }

    fn close_session_boxed(&self, session: SessionId) -> Boxed<'_, (), SessionError> {
        Box::pin(self.close_session(session))
    }

    fn limits_of(&self) -> StoreLimits {
        self.limits()
    }
}
