//! The contents of a write transaction.

use std::time::Duration;

use rusqlite::{Connection, Row};

use super::error::SqliteFailure;
use super::rows::{Head, Mark, checksum, load_entry, load_mark};
use super::schema::CHANGES_PER_REVISION;
use crate::commit::{Commit, Expect, Write};
use crate::error::{CommitError, Conflict};
use crate::key::Key;
use crate::store::{Revision, SessionId, Versioned};
use crate::watch::{Change, ChangeSet};

/// How many changes are kept for watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    pub(super) revisions: u64,
    pub(super) bytes: i64,
}

/// The largest number of keys that the end of a session deletes at one revision.
const ENDED_TOGETHER: usize = 10_000;

/// The largest number of expectations to search for a written key before a query.
const LOOKED_THROUGH: usize = 16;

/// A write transaction in progress: the new row about the store, and the changes.
pub(super) struct Changing<'c> {
    connection: &'c Connection,
    pub(super) head: Head,
    before: Head,
    pub(super) sets: Vec<ChangeSet>,
}

impl<'c> Changing<'c> {
    pub(super) fn begin(connection: &'c Connection) -> Result<Self, SqliteFailure> {
        let head = Head::load(connection)?;
        Ok(Self { connection, before: head.clone(), head, sets: Vec::new() })
    }

    /// Applies one commit, or returns why not. Other commits of the batch write none of its keys.
    pub(super) fn commit(
        &mut self,
        commit: &Commit,
        now: Duration,
    ) -> Result<Result<Revision, CommitError>, SqliteFailure> {
        let expectations = commit.expectations();
        let mut marks = Vec::with_capacity(expectations.len());
        for expectation in expectations {
            let mark = self.mark(&expectation.key)?;
            let met = match expectation.expect {
                Expect::Absent => mark.is_none(),
                Expect::At(revision) => mark.is_some_and(|mark| mark.revision == revision.get()),
            };
            if !met {
                return Ok(Err(CommitError::Conflict(self.conflict(commit)?)));
            }
            marks.push(mark);
        }
        for write in commit.writes() {
            if let Write::Put { session: Some(session), .. } = write
                && !self.is_session_alive(*session, now)?
            {
                return Ok(Err(CommitError::SessionGone(*session)));
            }
        }
        let revision = self.next_revision();
        let mut changes = Vec::with_capacity(commit.writes().len());
        for write in commit.writes() {
            let known =
                expectations.iter().take(LOOKED_THROUGH).position(|e| e.key == *write.key());
            let old = match known.and_then(|at| marks.get(at)) {
                Some(mark) => *mark,
                None => self.mark(write.key())?,
            };
            let ordinal = changes.len();
            changes.extend(self.write(write, old, revision, ordinal)?);
        }
        self.sets.push(ChangeSet { revision, changes });
        Ok(Ok(revision))
    }

    /// Ends a session and deletes its keys.
    pub(super) fn end_session(&mut self, session: SessionId) -> Result<(), SqliteFailure> {
        let number = session.get().cast_signed();
        let keys = self.keys_of(number)?;
        for together in keys.chunks(ENDED_TOGETHER) {
            let revision = self.next_revision();
            let mut changes = Vec::with_capacity(together.len());
            for key in together {
                let Some(old) = self.mark(key)? else {
                    let what = format!("the index of sessions names {key}, which does not exist");
                    return Err(SqliteFailure::Damaged(what));
                };
                let write = Write::Delete { key: key.clone() };
                let ordinal = changes.len();
                changes.extend(self.write(&write, Some(old), revision, ordinal)?);
            }
            self.sets.push(ChangeSet { revision, changes });
        }
        let sql = "DELETE FROM session WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute([number])?;
        Ok(())
    }

    /// Drops all recorded changes.
    pub(super) fn forget_all(&mut self) -> Result<(), SqliteFailure> {
        self.connection.prepare_cached("DELETE FROM change")?.execute([])?;
        self.head.forgotten_revision = self.head.revision;
        self.head.forgotten_bytes = self.head.change_bytes;
        Ok(())
    }

    /// Writes the row about the store, if anything has changed. Returns whether it has.
    pub(super) fn finish(&mut self, history: History) -> Result<bool, SqliteFailure> {
        self.forget(history)?;
        if self.head == self.before {
            return Ok(false);
        }
        self.head.save(self.connection)?;
        Ok(true)
    }

    pub(super) const fn connection(&self) -> &'c Connection {
        self.connection
    }

    const fn next_revision(&mut self) -> Revision {
        self.head.revision += 1;
        Revision::new(self.head.revision)
    }

    fn mark(&self, key: &Key) -> Result<Option<Mark>, SqliteFailure> {
        load_mark(self.connection, key, self.head.revision)
    }

    fn conflict(&self, commit: &Commit) -> Result<Conflict, SqliteFailure> {
        let mut found = Vec::with_capacity(commit.expectations().len());
        for expectation in commit.expectations() {
            let entry = load_entry(self.connection, &expectation.key, self.head.revision)?;
            found.push((expectation.key.clone(), entry));
        }
        Ok(Conflict { found })
    }

    fn is_session_alive(&self, session: SessionId, now: Duration) -> Result<bool, SqliteFailure> {
        let sql = "SELECT 1 FROM session WHERE id = ?1 AND deadline_ms > ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(statement.exists((session.get().cast_signed(), millis(now)))?)
    }

    fn keys_of(&self, session: i64) -> Result<Vec<Key>, SqliteFailure> {
        let sql = "SELECT key FROM entry WHERE session = ?1 ORDER BY key";
        let mut statement = self.connection.prepare_cached(sql)?;
        let read = |row: &Row<'_>| row.get::<_, Vec<u8>>(0);
        let keys = statement.query_map([session], read)?;
        keys.map(|key| Ok(Key::from(key?))).collect()
    }

    fn write(
        &mut self,
        write: &Write,
        old: Option<Mark>,
        revision: Revision,
        ordinal: usize,
    ) -> Result<Option<Change>, SqliteFailure> {
        let connection = self.connection;
        let number = revision.get().cast_signed();
        let change = match write {
            Write::Put { key, value, session } => {
                let session_number = session.map(|session| session.get().cast_signed());
                let sum = checksum(key.as_bytes(), value, number, session_number);
                let sql = if old.is_some() {
                    "UPDATE entry SET value = ?2, revision = ?3, session = ?4, checksum = ?5 \
                     WHERE key = ?1"
                } else {
                    "INSERT INTO entry (key, value, revision, session, checksum) \
                     VALUES (?1, ?2, ?3, ?4, ?5)"
                };
                let row = (key.as_bytes(), value.as_ref(), number, session_number, sum);
                connection.prepare_cached(sql)?.execute(row)?;
                self.head.replace(old.map(|old| old.checksum), Some(sum));
                let now = Versioned::new(value.clone(), revision, *session);
                Change { key: key.clone(), now: Some(now) }
            }
            Write::Delete { key } => {
                let Some(old) = old else { return Ok(None) };
                let sql = "DELETE FROM entry WHERE key = ?1";
                connection.prepare_cached(sql)?.execute([key.as_bytes()])?;
                self.head.replace(Some(old.checksum), None);
                Change { key: key.clone(), now: None }
            }
        };
        self.record(&change, revision, ordinal)?;
        Ok(Some(change))
    }

    /// Records a change for watches.
    fn record(
        &mut self,
        change: &Change,
        revision: Revision,
        ordinal: usize,
    ) -> Result<(), SqliteFailure> {
        const ROW_BYTES: usize = 32;
        let place = u64::try_from(ordinal).unwrap_or(u64::MAX).min(CHANGES_PER_REVISION - 1);
        let position = revision.get() * CHANGES_PER_REVISION + place;
        let value = change.now.as_ref().map(|now| now.value.as_ref());
        let session = change.now.as_ref().and_then(|now| now.session);
        let session = session.map(|session| session.get().cast_signed());
        let key = change.key.as_bytes();
        let sql = "INSERT INTO change (position, key, value, session, bytes_before) \
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = (position.cast_signed(), key, value, session, self.head.change_bytes);
        self.connection.prepare_cached(sql)?.execute(row)?;
        let bytes = ROW_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.head.change_bytes = self.head.change_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Drops the oldest changes when there are clearly too many.
    fn forget(&mut self, history: History) -> Result<(), SqliteFailure> {
        // Many at a time, so that most commits drop none.
        let slack = history.revisions / 8;
        let mut forgotten = self.head.forgotten_revision;
        if self.head.revision.saturating_sub(forgotten) > history.revisions + slack {
            forgotten = self.head.revision - history.revisions;
        }
        let bytes = self.head.change_bytes.saturating_sub(self.head.forgotten_bytes);
        if bytes > history.bytes + history.bytes / 8 {
            forgotten = forgotten.max(self.before_bytes(self.head.change_bytes - history.bytes)?);
        }
        if forgotten == self.head.forgotten_revision {
            return Ok(());
        }
        let first = ((forgotten + 1) * CHANGES_PER_REVISION).cast_signed();
        let sql = "DELETE FROM change WHERE position < ?1";
        self.connection.prepare_cached(sql)?.execute([first])?;
        let sql = "SELECT bytes_before FROM change ORDER BY position LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        self.head.forgotten_bytes = match rows.next()? {
            Some(row) => row.get(0)?,
            None => self.head.change_bytes,
        };
        self.head.forgotten_revision = forgotten;
        Ok(())
    }

    /// The last revision that is complete before this many bytes of changes.
    fn before_bytes(&self, bytes: i64) -> Result<u64, SqliteFailure> {
        let sql = "SELECT position FROM change WHERE bytes_before >= ?1 ORDER BY position LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([bytes])?;
        let Some(row) = rows.next()? else { return Ok(self.head.revision) };
        let position = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        Ok((position / CHANGES_PER_REVISION).saturating_sub(1))
    }
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
