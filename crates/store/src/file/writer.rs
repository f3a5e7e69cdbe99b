//! The writer of this process: its connections and its tasks.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::Setup;
use super::apply::{Changing, millis};
use super::error::SqliteFailure;
use super::feed::Feed;
use super::locks::{Owner, WriteLock};
use super::recovery::mark_in_use;
use super::rows::Head;
use super::schema::{Checkpoint, LogPages, Role, checkpoint, connect, count_log_pages};
use crate::batch::CommitBatch;
use crate::error::{CommitError, Fault, FaultKind, SessionError, StoreError};
use crate::store::{Session, SessionId};

/// A task of the writer.
#[derive(Debug)]
pub(super) enum WriteTask {
    Commits(CommitBatch),
    Open {
        ttl: Duration,
        reply: oneshot::Sender<Result<Session, SessionError>>,
    },
    KeepAlive {
        session: SessionId,
        reply: oneshot::Sender<Result<(), SessionError>>,
    },
    Close {
        session: SessionId,
        reply: oneshot::Sender<Result<(), SessionError>>,
    },
    /// Ends the sessions that have expired or whose owner has ended.
    EndSessions,
    /// Drops all recorded changes.
    Forget {
        reply: oneshot::Sender<Result<(), SessionError>>,
    },
}

impl WriteTask {
    /// Reports that nothing was done.
    pub(super) fn refuse(self, fault: Fault) {
        let error = || SessionError::Store(StoreError::Unavailable(fault.clone()));
        // A dropped caller needs no answer.
        match self {
            Self::Commits(batch) => batch.fail(&CommitError::NotApplied(fault)),
            Self::Open { reply, .. } => drop(reply.send(Err(error()))),
            Self::KeepAlive { reply, .. } | Self::Close { reply, .. } | Self::Forget { reply } => {
                drop(reply.send(Err(error())));
            }
            Self::EndSessions => {}
        }
    }
}

/// Writes to the database. The caller also holds the write lock.
#[derive(Debug)]
pub(super) struct Writer {
    setup: Arc<Setup>,
    feed: Arc<Feed>,
    pub(super) write_lock: WriteLock,
    /// Opened when needed, and reopened after a failure.
    durable: Option<(Connection, LogPages)>,
    upkeep: Option<Connection>,
    log_pages_seen: i32,
    /// The length of the log when it was last checkpointed.
    log_pages_moved: i32,
    /// Whether the store is marked as in use.
    is_marked: bool,
    /// Why the writer has stopped.
    broken: Option<Fault>,
    owner: Option<Owner>,
}

/// Where a transaction failed.
enum Failed {
    /// Another process has locked the database. Nothing was tried.
    Busy,
    Before(SqliteFailure),
    Committing(SqliteFailure),
}

impl From<SqliteFailure> for Failed {
    fn from(failure: SqliteFailure) -> Self {
        if failure.is_busy() { Self::Busy } else { Self::Before(failure) }
    }
}

impl From<rusqlite::Error> for Failed {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(SqliteFailure::from(error))
    }
}

impl Writer {
    pub(super) fn new(setup: Arc<Setup>, feed: Arc<Feed>) -> io::Result<Self> {
        let write_lock = WriteLock::new(&setup.locks)?;
        Ok(Self {
            setup,
            feed,
            write_lock,
            durable: None,
            upkeep: None,
            log_pages_seen: 0,
            log_pages_moved: 0,
            is_marked: false,
            broken: None,
            owner: None,
        })
    }

    /// Runs a task, or returns it if another process locks the database for longer than `timeout`.
    pub(super) fn run(&mut self, task: WriteTask, timeout: Duration) -> Option<WriteTask> {
        if let Some(fault) = &self.broken {
            task.refuse(fault.clone());
            return None;
        }
        let given_back = match task {
            WriteTask::Commits(batch) => self.commit(batch, timeout),
            WriteTask::EndSessions => self.end_sessions(timeout),
            WriteTask::Open { ttl, reply } => match self.open(ttl, timeout) {
                Err(Failed::Busy) => Some(WriteTask::Open { ttl, reply }),
                result => self.answer(reply, result.map(Ok)),
            },
            WriteTask::KeepAlive { session, reply } => match self.keep_alive(session, timeout) {
                Err(Failed::Busy) => Some(WriteTask::KeepAlive { session, reply }),
                result => self.answer(reply, result.map(|kept| kept.ok_or(session))),
            },
            WriteTask::Close { session, reply } => match self.close_session(session, timeout) {
                Err(Failed::Busy) => Some(WriteTask::Close { session, reply }),
                result => self.answer(reply, result.map(|closed| closed.ok_or(session))),
            },
            WriteTask::Forget { reply } => {
                match self.durably(timeout, |changing| changing.forget_all()) {
                    Err(Failed::Busy) => Some(WriteTask::Forget { reply }),
                    result => self.answer(reply, result.map(Ok)),
                }
            }
        };
        self.shorten_log();
        given_back
    }

    fn commit(&mut self, batch: CommitBatch, timeout: Duration) -> Option<WriteTask> {
        let now = self.setup.clock.now();
        let result = self.durably(timeout, |changing| {
            let mut results = Vec::with_capacity(batch.commits().len());
            for commit in batch.commits() {
                results.push(changing.commit(commit, now)?);
            }
            Ok(results)
        });
        match result {
            Ok(results) => batch.finish(results),
            Err(Failed::Busy) => return Some(WriteTask::Commits(batch)),
            Err(Failed::Before(failure)) => batch.fail(&failure.before_commit(self.path())),
            Err(Failed::Committing(failure)) => batch.fail(&failure.in_commit(self.path())),
        }
        None
    }

    fn open(&mut self, ttl: Duration, timeout: Duration) -> Result<Session, Failed> {
        let ttl = ttl.max(Duration::from_millis(1));
        let deadline = millis(self.setup.clock.now()).saturating_add(millis(ttl));
        let locks = self.setup.locks.clone();
        let mut owner = self.owner.take();
        let opened = self.lightly(timeout, |connection| {
            let mut head = Head::load(connection)?;
            let taken = match &owner {
                Some(owner) => owner.number,
                None => loop {
                    head.last_owner = head.last_owner.saturating_add(1);
                    let taken = locks.take_owner(head.last_owner).map_err(lock_failure)?;
                    if taken.is_some() {
                        owner = taken;
                        break head.last_owner;
                    }
                },
            };
            // Numbers are never reused, not even after a transaction that failed.
            head.last_owner = head.last_owner.max(taken);
            head.last_session = head.last_session.saturating_add(1);
            head.save(connection)?;
            let sql = "INSERT INTO session VALUES (?1, ?2, ?3, ?4)";
            let row = (head.last_session, taken, millis(ttl), deadline);
            connection.prepare_cached(sql)?.execute(row)?;
            Ok(SessionId::new(head.last_session.cast_unsigned()))
        });
        self.owner = owner;
        Ok(Session { id: opened?, ttl })
    }

    fn keep_alive(&mut self, session: SessionId, timeout: Duration) -> Result<Option<()>, Failed> {
        let now = millis(self.setup.clock.now());
        self.lightly(timeout, |connection| {
            let sql = "UPDATE session SET deadline_ms = ?2 + ttl_ms \
                       WHERE id = ?1 AND deadline_ms > ?2";
            let row = (session.get().cast_signed(), now);
            Ok((connection.prepare_cached(sql)?.execute(row)? > 0).then_some(()))
        })
    }

    fn close_session(
        &mut self,
        session: SessionId,
        timeout: Duration,
    ) -> Result<Option<()>, Failed> {
        self.durably(timeout, |changing| {
            let there = changing.has_session(session)?;
            there.then(|| changing.end_session(session)).transpose()
        })
    }

    fn end_sessions(&mut self, timeout: Duration) -> Option<WriteTask> {
        let now = self.setup.clock.now();
        let setup = Arc::clone(&self.setup);
        let own = self.owner.as_ref().map(|owner| owner.number);
        let ended = self.durably(timeout, |changing| {
            let over = changing.sessions()?.into_iter().filter(|found| {
                found.deadline_ms <= millis(now)
                    || (Some(found.owner) != own && setup.is_owner_gone(found.owner))
            });
            let over: Vec<_> = over.collect();
            for session in &over {
                changing.end_session(session.id)?;
            }
            Ok(over.into_iter().map(|session| session.owner).collect::<Vec<_>>())
        });
        // Maintenance soon retries a failure.
        for owner in ended.into_iter().flatten().filter(|owner| Some(*owner) != own) {
            if setup.is_owner_gone(owner) {
                setup.locks.forget_owner(owner);
            }
        }
        None
    }

    /// Runs a transaction that is durable when this returns, and notifies watches.
    fn durably<T>(
        &mut self,
        timeout: Duration,
        change: impl FnOnce(&mut Changing<'_>) -> Result<T, SqliteFailure>,
    ) -> Result<T, Failed> {
        if self.durable.is_none() {
            let mut connection = connect(self.path(), Role::Writer, timeout)?;
            let pages = count_log_pages(&mut connection)?;
            self.durable = Some((connection, pages));
        }
        let history = self.setup.history;
        let Some((connection, _)) = &self.durable else { return Err(Failed::Busy) };
        let marked = mark_once(&mut self.is_marked, connection, timeout);
        let result = marked.and_then(|()| {
            transaction(connection, timeout, || {
                let mut changing = Changing::begin(connection)?;
                let result = change(&mut changing)?;
                changing.finish(history)?;
                Ok((result, changing.sets))
            })
        });
        let (result, sets) = result.inspect_err(|failed| {
            let spoilt = failed.spoils_connection();
            if failed.is_failed_sync() {
                self.broken = Some(self.setup.sync_failed());
            }
            if spoilt {
                self.durable = None;
            }
        })?;
        self.feed.push(sets);
        Ok(result)
    }

    /// Runs a transaction that a power failure may undo.
    fn lightly<T>(
        &mut self,
        timeout: Duration,
        change: impl FnOnce(&Connection) -> Result<T, SqliteFailure>,
    ) -> Result<T, Failed> {
        if self.upkeep.is_none() {
            let mut connection = connect(self.path(), Role::Upkeep, timeout)?;
            // The other connection checkpoints the log.
            count_log_pages(&mut connection)?;
            self.upkeep = Some(connection);
        }
        let Some(connection) = &self.upkeep else { return Err(Failed::Busy) };
        let result = mark_once(&mut self.is_marked, connection, timeout)
            .and_then(|()| transaction(connection, timeout, || change(connection)));
        if result.as_ref().is_err_and(Failed::spoils_connection) {
            self.upkeep = None;
        }
        result
    }

    /// Checkpoints the log when it has become long. Callers already have their answers.
    fn shorten_log(&mut self) {
        let Some((connection, pages)) = &self.durable else { return };
        let pages = pages.load(Ordering::Relaxed);
        if pages < self.log_pages_seen {
            // The log has restarted.
            self.log_pages_moved = 0;
        }
        self.log_pages_seen = pages;
        // A log that readers keep from restarting grows, and is not checkpointed at every commit.
        if pages < self.log_pages_moved.saturating_add(self.setup.log_pages) {
            return;
        }
        self.log_pages_moved = pages;
        if let Err(failure) = checkpoint(connection, Checkpoint::Passive)
            && failure.is_failed_sync()
        {
            // The log is complete, but the state of the database is unknown.
            self.broken = Some(self.setup.sync_failed());
        }
    }

    /// Answers a caller whose task is not returned to the queue.
    fn answer<T>(
        &self,
        reply: oneshot::Sender<Result<T, SessionError>>,
        result: Result<Result<T, SessionId>, Failed>,
    ) -> Option<WriteTask> {
        let answer = match result {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(session)) => Err(SessionError::Gone(session)),
            Err(Failed::Before(failure) | Failed::Committing(failure)) => {
                Err(SessionError::Store(failure.store_error(self.path())))
            }
            // Tasks of a busy database go back to the queue, so no caller gets this.
            Err(Failed::Busy) => Err(SessionError::Store(StoreError::Unavailable(Fault::new(
                FaultKind::Busy,
                "the database is busy",
            )))),
        };
        // A dropped caller needs no answer.
        drop(reply.send(answer));
        None
    }

    /// Closes the connections and ends all sessions that were opened here.
    pub(super) fn close(&mut self) {
        self.durable = None;
        self.upkeep = None;
        self.owner = None;
    }

    fn path(&self) -> &Path {
        &self.setup.path
    }
}

impl Failed {
    fn spoils_connection(&self) -> bool {
        match self {
            Self::Busy => false,
            Self::Before(failure) | Self::Committing(failure) => failure.spoils_connection(),
        }
    }

    fn is_failed_sync(&self) -> bool {
        match self {
            Self::Busy => false,
            Self::Before(failure) | Self::Committing(failure) => failure.is_failed_sync(),
        }
    }
}

fn lock_failure(error: io::Error) -> SqliteFailure {
    SqliteFailure::Sqlite(rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}

/// Marks the store as in use before the first write, if the disk was full when it was opened.
fn mark_once(
    is_marked: &mut bool,
    connection: &Connection,
    timeout: Duration,
) -> Result<(), Failed> {
    if !*is_marked {
        connection.busy_timeout(timeout)?;
        mark_in_use(connection)?;
        *is_marked = true;
    }
    Ok(())
}

/// Runs a transaction. On return, no transaction is open, even after a failure.
fn transaction<T>(
    connection: &Connection,
    timeout: Duration,
    change: impl FnOnce() -> Result<T, SqliteFailure>,
) -> Result<T, Failed> {
    connection.busy_timeout(timeout)?;
    connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let undo = || {
        if !connection.is_autocommit() {
            // If this fails as well, the connection is closed.
            let _failed = connection.execute_batch("ROLLBACK");
        }
    };
    let result = change().inspect_err(|_| undo())?;
    match connection.prepare_cached("COMMIT")?.execute([]) {
        Ok(_) => Ok(result),
        Err(error) => {
            undo();
            Err(Failed::Committing(SqliteFailure::from(error)))
        }
    }
}

impl Setup {
    fn sync_failed(&self) -> Fault {
        let path = self.path.display();
        let message = format!(
            "a sync of {path} failed, so nothing more is written; check the disk and open the \
             store again"
        );
        Fault::new(FaultKind::Other, message)
    }

    pub(super) fn is_owner_gone(&self, owner: i64) -> bool {
        // An owner whose lock cannot be checked counts as alive. Its sessions expire by time.
        self.locks.is_owner_gone(owner).unwrap_or(false)
    }
}
