use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;

use crate::commit::Commit;
use crate::error::{CommitError, ScanError, SessionError, StoreError, WatchError};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::watch::Changes;

/// A moment in the life of a store.
///
/// Revisions never fall. What a commit writes gets a revision that is higher than all that were
/// there before, so a key's revision changes with every write to it. Commits that were decided
/// together may share theirs, and one that changes nothing may be given one that was there before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// Before the first commit.
    pub const ZERO: Self = Self(0);

    /// The revision of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
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

/// A value and when it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// The value.
    pub value: Bytes,
    /// The revision of the commit that wrote it.
    pub revision: Revision,
    /// The session that it goes with.
    pub session: Option<SessionId>,
    /// Whether what is stored is not what was written, as far as the store can detect. Then the
    /// value is empty, so that it is never mistaken for data, there is no session, and the revision
    /// only serves a commit to name it. It is the damage of this key, and of no other, unless the
    /// key itself is what changed.
    pub is_damaged: bool,
}

impl Versioned {
    /// A value as it was written.
    #[must_use]
    pub const fn new(value: Bytes, revision: Revision, session: Option<SessionId>) -> Self {
        Self { value, revision, session, is_damaged: false }
    }
}

/// What was under some keys at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The moment.
    pub revision: Revision,
    /// What was there, in the order of the keys that were asked for.
    pub values: Vec<Option<Versioned>>,
}

/// Which part of a range to read next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanFrom {
    /// Most entries of the page. A store may give fewer, and says whether there is more.
    pub limit: usize,
    /// Where the page before ended; none for the first one.
    pub after: Option<Continuation>,
}

impl ScanFrom {
    /// The first page.
    #[must_use]
    pub const fn first(limit: usize) -> Self {
        Self { limit, after: None }
    }
}

/// How to go on with a scan: at which moment, and after which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The moment that all pages are of.
    pub revision: Revision,
    /// The last key of the page before.
    pub after: Key,
}

/// A part of a range, in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPage {
    /// The moment that the page, and the whole scan, is of.
    pub revision: Revision,
    /// Keys and what is under them.
    pub entries: Vec<(Key, Versioned)>,
    /// How to go on; none after the last page.
    pub next: Option<Continuation>,
}

/// Which session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u64);

impl SessionId {
    /// The session of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
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

/// A session as it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Which.
    pub id: SessionId,
    /// How long it lives without being kept alive. May be more than was asked for.
    pub ttl: Duration,
}

/// A linearizable store of bytes.
///
/// Only [`Store::commit`] decides anything. Whatever a store says otherwise may be out of date
/// by the time it is read, and a session may end earlier or later than its time.
pub trait Store: Send + Sync + 'static {
    /// Reads some keys, all at one moment.
    fn load(&self, keys: &[Key]) -> impl Future<Output = Result<Snapshot, StoreError>> + Send;

    /// Reads a range, page by page, all pages at one moment.
    fn scan(
        &self,
        range: &StoreRange,
        page: ScanFrom,
    ) -> impl Future<Output = Result<ScanPage, ScanError>> + Send;

    /// Applies a commit and gives the revision of what it wrote. What is acknowledged is durable.
    ///
    /// If the future is dropped, the commit may or may not happen.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Revision, CommitError>> + Send;

    /// Follows the changes of a range that come after a revision.
    fn watch(
        &self,
        range: &StoreRange,
        after: Revision,
    ) -> impl Future<Output = Result<Changes, WatchError>> + Send;

    /// Opens a session. It ends when it is not kept alive for `ttl`, or when its process is known
    /// to be gone; whatever was put in it goes away then.
    fn open_session(
        &self,
        ttl: Duration,
    ) -> impl Future<Output = Result<Session, SessionError>> + Send;

    /// Makes a session last for its whole time again.
    fn keep_alive(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<(), SessionError>> + Send;

    /// Ends a session at once, with all that was put in it.
    fn close_session(
        &self,
        session: SessionId,
    ) -> impl Future<Output = Result<(), SessionError>> + Send;

    /// How large a commit may be.
    fn limits(&self) -> StoreLimits;
}
