use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::commit::Commit;
use crate::error::{CommitError, ScanError, SessionError, StoreError, WatchError};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::watch::Changes;

/// The revision of a store's state.
///
/// Revisions never decrease. A commit gives every key that it writes a revision above all earlier
/// ones. Commits of one batch may share a revision. A commit that changes nothing may return an
/// earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before the first commit.
    pub const ZERO: Self = Self(0);

    /// A revision with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number of the revision.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A value and the revision that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value.
    pub value: Bytes,
    /// The revision of the commit that wrote it.
    pub revision: Revision,
    /// The session that the key belongs to.
    pub session: Option<SessionId>,
    /// The store has detected that the stored bytes differ from what was written. The value is then
    /// empty and has no session, and the revision only lets a commit name the key. Other keys are
    /// not affected, unless the damage changed the key itself.
    pub is_damaged: bool,
}

impl Versioned {
    /// A value as it was written.
    #[must_use]
    pub const fn new(value: Bytes, revision: Revision, session: Option<SessionId>) -> Self {
        Self { value, revision, session, is_damaged: false }
    }
}

/// The values of some keys at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of all values.
    pub revision: Revision,
    /// The values in the order of the requested keys.
    pub values: Vec<Option<Versioned>>,
}

/// Which part of a range to read next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFrom {
    /// The largest number of entries. A store may return fewer, and `next` shows whether there are
    /// more.
    pub limit: usize,
    /// Where the previous page ended, or `None` for the first page.
    pub after: Option<Continuation>,
}

impl ScanFrom {
    /// The first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// Where a scan continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The revision of all pages of the scan.
    pub revision: Revision,
    /// The last key of the previous page.
    pub after: Key,
}

/// A part of a range, in key order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    /// The revision of the page and of the whole scan.
    pub revision: Revision,
    /// Keys and their values.
    pub entries: Vec<(Key, Versioned)>,
    /// Where the scan continues, or `None` after the last page.
    pub next: Option<Continuation>,
}

/// The id of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// An id with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number of the session.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A session that the store has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The id.
    pub id: SessionId,
    /// How long it lives without a keep-alive. It may be longer than requested.
    pub ttl: Duration,
}

/// A linearizable store of bytes.
///
/// Only [`Store::commit`] decides. Every other answer may be out of date when it arrives, and a
/// session may end before or after its TTL.
pub trait Store: Send + Sync + 'static {
    /// Reads some keys, all at one revision.
    fn load(&self, keys: &[Key]) -> impl Future<Output = Result<Snapshot, StoreError>> + Send;

    /// Reads a range page by page, all pages at one revision.
    fn scan(
        &self,
        range: &StoreRange,
        page: ScanFrom,
    ) -> impl Future<Output = Result<ScanPage, ScanError>> + Send;

    /// Applies a commit and returns its revision. An acknowledged commit is durable.
    ///
    /// If the future is dropped, the outcome is unknown.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Revision, CommitError>> + Send;

    /// Streams the changes of a range after a revision.
    fn watch(
        &self,
        range: &StoreRange,
        after: Revision,
    ) -> impl Future<Output = Result<Changes, WatchError>> + Send;

    /// Opens a session. It ends `ttl` after its last keep-alive, or when the store knows that its
    /// process has ended. Its keys are deleted with it.
    fn open_session(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<Session, SessionError>> + Send;

    /// Restarts the TTL of a session.
    fn keep_alive(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<(), SessionError>> + Send;

    /// Ends a session and deletes its keys.
    fn close_session(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<(), SessionError>> + Send;

    /// How large a commit may be.
    fn limits(&self) -> StoreLimits;
}
