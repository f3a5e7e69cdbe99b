//! A store in a folder on a local disk, shared by all processes of the machine.
//!
//! It is an SQLite database, `state.db`, with its write-ahead log beside it, and a folder `locks`
//! of empty files. Waiting commits become durable in one transaction and one sync. Processes write
//! in turns with bounded waiting. Reads run beside the writer, each at one revision.
//!
//! # Files and locks
//!
//! Only SQLite opens the database, its log and the index of the log. The store's own locks are on
//! the files in `locks`:
//!
//! | file | lock |
//! |---|---|
//! | `open` | held while a process opens or closes the store, one at a time |
//! | `users` | shared by all users of the store, and exclusive for the first and the last one |
//! | `next`, `turn` | the order of writing processes |
//! | `owner-N` | held by an owner of sessions for as long as it lives |
//!
//! The first user finds no other user, so all sessions have ended. If the last user did not close
//! the store, the first one checks all entries against a digest that every commit updates. A store
//! that does not match is refused.
//!
//! # What is not guaranteed
//!
//! A disk that reports a sync that it did not do loses data. A disk that returns other bytes than
//! were written is detected. There is no history beyond the latest changes: a slow scan or a watch
//! that lags too far starts again.

mod apply;
mod error;
mod feed;
mod locks;
mod maintenance;
mod readers;
mod recovery;
mod rows;
mod schema;
#[cfg(test)]
mod tests;
mod users;
mod write_queue;
mod writer;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

pub use self::error::FileOpenError;
use self::feed::Feed;
use self::locks::Locks;
pub use self::locks::lock_holders;
use self::maintenance::Maintenance;
use self::readers::{Readers, Scanned};
use self::users::NetworkKind;
use self::write_queue::WriteQueue;
use self::writer::{WriteTask, Writer};
use crate::batch::Batcher;
use crate::clock::{MachineClock, SessionClock};
use crate::commit::Commit;
use crate::error::{
    CommitError, Fault, FaultKind, ScanError, SessionError, StoreError, WatchError,
};
use crate::folder::{FolderOwner, OpenFolder, TrustedFolders};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::store::{Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store};
use crate::watch::Changes;

/// Options of a store in a folder.
#[derive(Clone)]
pub struct FileOptions {
    /// How long a call waits for other processes.
    pub timeout: Duration,
    /// How many change sets a reader of a watch may lag.
    pub watch_capacity: usize,
    /// How many of the latest revisions are kept for watches.
    pub history_revisions: u64,
    /// How many bytes of the latest changes are kept for watches.
    pub history_bytes: u64,
    /// How many revisions scans may hold at the same time.
    pub scans_max: usize,
    /// How long a scan may take.
    pub scan_time: Duration,
    /// The number of pages at which the log is checkpointed into the database.
    pub log_pages: u32,
    /// Folders whose state is used even if another user owns it.
    pub trusted: TrustedFolders,
    /// The clock of sessions. All users of a folder must use the same.
    pub clock: Arc<dyn SessionClock>,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            watch_capacity: 4_096,
            history_revisions: 16_384,
            history_bytes: 64 * 1_024 * 1_024,
            scans_max: 16,
            scan_time: Duration::from_secs(30),
            log_pages: 2_000,
            trusted: TrustedFolders::default(),
            clock: Arc::new(MachineClock),
        }
    }
}

impl fmt::Debug for FileOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOptions").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The file name of the database.
pub(crate) const DATABASE: &str = "state.db";

/// Permissions of the files of a store. Only their owner can use them.
const PRIVATE_MODE: u32 = 0o600;

/// How large a commit may be.
const LIMITS: StoreLimits =
    StoreLimits { expectations: 1_024, writes: 1_024, key_bytes: 1_024, bytes: 8 * 1_024 * 1_024 };

/// What all parts of an open store share.
struct Setup {
    path: PathBuf,
    locks: Locks,
    /// Locked for as long as any part of this store may write.
    users: File,
    clock: Arc<dyn SessionClock>,
    timeout: Duration,
    history: apply::History,
    log_pages: i32,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A store in a folder. All clones count as one user.
#[derive(Clone, Debug)]
pub struct FileStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    setup: Arc<Setup>,
    batcher: Batcher<WriteQueue>,
    readers: Arc<Readers>,
    feed: Arc<Feed>,
    maintenance: Maintenance,
    watch_capacity: usize,
}

impl FileStore {
    /// Opens the store in a folder, and creates it if it does not exist.
    ///
    /// This waits for the disk, and for other processes that open the same store and send
    /// heartbeats. After a crash, it reads and checks all entries. On a full disk, an existing
    /// store can still be opened and read. State of another user is refused, unless it is trusted.
    pub fn open(folder: impl AsRef<Path>, options: FileOptions) -> Result<Self, FileOpenError> {
        Self::open_on(folder.as_ref(), options, &locks::network_kind_of)
    }

    fn open_on(
        folder: &Path,
        options: FileOptions,
        network_kind: &NetworkKind,
    ) -> Result<Self, FileOpenError> {
        let unwritable =
            |source: io::Error| FileOpenError::Unwritable { folder: folder.to_owned(), source };
        let existing = OpenFolder::open(folder).ok();
        existing.as_ref().map_or(Ok(FolderOwner::Caller), |it| options.trusted.check_open(it))?;
        let home = users::make_folder(folder, network_kind)?;
        let opened = existing.map_or_else(|| OpenFolder::open(folder), Ok).map_err(unwritable)?;
        let locks = Locks::new(home.join("locks"));
        let path = home.join(DATABASE);
        let users = users::enter(&locks, &home, &path, options.timeout)?;
        // The database was opened by its path, after the first check.
        options.trusted.check_open(&opened)?;
        if !opened.is_in_place() {
            return Err(FileOpenError::Replaced { folder: folder.to_owned() });
        }
        let setup = Arc::new(Setup {
            path: path.clone(),
            locks,
            users,
            clock: options.clock,
            timeout: options.timeout,
            history: apply::History {
                revisions: options.history_revisions.max(1),
                bytes: i64::try_from(options.history_bytes).unwrap_or(i64::MAX / 4),
            },
            log_pages: i32::try_from(options.log_pages).unwrap_or(i32::MAX),
        });
        let readers = Readers::new(path.clone(), options.scans_max.max(1), options.scan_time);
        let readers = Arc::new(readers);
        let feed = Arc::new(Feed::new(path, Arc::clone(&readers)));
        let writer = Writer::new(Arc::clone(&setup), Arc::clone(&feed)).map_err(unwritable)?;
        let queue = Arc::new(WriteQueue::new(Arc::clone(&setup), writer));
        let batcher = Batcher::new(queue);
        let maintenance = Maintenance::start(
            Arc::clone(&setup),
            batcher.clone(),
            Arc::clone(&readers),
            Arc::clone(&feed),
        );
        let maintenance = maintenance.map_err(|source| FileOpenError::Failed {
            path: setup.path.clone(),
            source: Box::new(source),
        })?;
        let watch_capacity = options.watch_capacity;
        let inner = Inner { setup, batcher, readers, feed, maintenance, watch_capacity };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.setup.path
    }

    /// Drops the recorded changes and the revisions that scans hold.
    pub async fn compact(&self) -> Result<(), StoreError> {
        self.inner.readers.clear();
        let forgotten = self.ask(|reply| WriteTask::Forget { reply }).await;
        forgotten.map_err(|error| match error {
            SessionError::Store(error) => error,
            SessionError::Gone(_) => StoreError::Unavailable(interrupted()),
        })
    }

    /// Checks for ended sessions at once, instead of at the next interval.
    pub fn check_sessions(&self) {
        self.inner.maintenance.wake();
    }

    async fn ask<T>(
        &self,
        task: impl FnOnce(oneshot::Sender<Result<T, SessionError>>) -> WriteTask,
    ) -> Result<T, SessionError> {
        let (reply, answer) = oneshot::channel();
        self.inner.batcher.engine().submit(task(reply));
        answer
            .await
            .unwrap_or_else(|_| Err(SessionError::Store(StoreError::Unavailable(interrupted()))))
    }
}

impl Store for FileStore {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let read = self.inner.readers.read(|connection| {
            let revision = rows::load_revision(connection)?;
            let load = |key| rows::load_entry(connection, key, revision.get());
            let values = keys.iter().map(load);
            Ok(Snapshot { revision, values: values.collect::<Result<_, _>>()? })
        });
        let snapshot = read.map_err(|failure| failure.store_error(self.path()))?;
        if snapshot.values.iter().flatten().any(|found| found.session.is_some()) {
            // The caller may be waiting for the end of the session.
            self.inner.maintenance.wake_if_idle();
        }
        Ok(snapshot)
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        match self.inner.readers.scan(range, &page) {
            Ok(Scanned::Page(page)) => Ok(page),
            Ok(Scanned::Moved) => Err(ScanError::Moved),
            Err(failure) => Err(ScanError::Store(failure.store_error(self.path()))),
        }
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        commit.check(&LIMITS)?;
        self.inner.batcher.commit(commit).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        let changes = self.inner.feed.watch(range, after, self.inner.watch_capacity);
        self.inner.maintenance.wake();
        changes
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        let session = self.ask(|reply| WriteTask::Open { ttl, reply }).await;
        self.inner.maintenance.wake();
        session
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        self.ask(|reply| WriteTask::KeepAlive { session, reply }).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        self.ask(|reply| WriteTask::Close { session, reply }).await
    }

    fn limits(&self) -> StoreLimits {
        LIMITS
    }
}

/// How long closing a store waits for a write in progress.
const CLOSING: Duration = Duration::from_secs(2);

impl Drop for Inner {
    fn drop(&mut self) {
        self.maintenance.stop();
        self.readers.clear();
        // A thread that still writes is still a user, and leaves when it is done.
        if self.batcher.engine().close(CLOSING) {
            users::leave(&self.setup);
        }
    }
}

fn interrupted() -> Fault {
    Fault::new(FaultKind::Other, "the store was closed")
}
