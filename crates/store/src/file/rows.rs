//! The rows of the database. Every row has a checksum that is verified when it is read.

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::apply::Changing;
use super::error::SqliteFailure;
use super::schema::CHANGES_PER_REVISION;
use crate::key::Key;
use crate::store::{Revision, SessionId, Versioned};

/// The single row about the whole store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) revision: u64,
    pub(super) digest: i64,
    pub(super) forgotten_revision: u64,
    pub(super) forgotten_bytes: i64,
    pub(super) change_bytes: i64,
    pub(super) last_session: i64,
    pub(super) last_owner: i64,
    pub(super) closed: bool,
}

impl Head {
    pub(super) fn load(connection: &Connection) -> Result<Self, SqliteFailure> {
        let sql = "SELECT revision, digest, forgotten_revision, forgotten_bytes, change_bytes, \
                   last_session, last_owner, closed FROM store";
        let read = |row: &Row<'_>| {
            let numbers: [i64; 7] = [
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
            ];
            Ok((numbers, row.get::<_, bool>(7)?))
        };
        let found = connection.prepare_cached(sql)?.query_row([], read).optional()?;
        let Some((numbers, closed)) = found else {
            return Err(SqliteFailure::Damaged("the row about the store is missing".to_owned()));
        };
        let [revision, digest, forgotten_revision, forgotten_bytes, change_bytes, session, owner] =
            numbers;
        Ok(Self {
            revision: revision_number(revision)?,
            digest,
            forgotten_revision: revision_number(forgotten_revision)?,
            forgotten_bytes,
            change_bytes,
            last_session: session,
            last_owner: owner,
            closed,
        })
    }

    pub(super) fn save(&self, connection: &Connection) -> Result<(), SqliteFailure> {
        let sql = "UPDATE store SET revision = ?1, digest = ?2, forgotten_revision = ?3, \
                   forgotten_bytes = ?4, change_bytes = ?5, last_session = ?6, last_owner = ?7, \
                   closed = ?8";
        connection.prepare_cached(sql)?.execute((
            self.revision.cast_signed(),
            self.digest,
            self.forgotten_revision.cast_signed(),
            self.forgotten_bytes,
            self.change_bytes,
            self.last_session,
            self.last_owner,
            self.closed,
        ))?;
        Ok(())
    }

    /// Adds a row to the digest or removes it.
    pub(super) const fn replace(&mut self, old: Option<i64>, new: Option<i64>) {
        if let Some(old) = old {
            self.digest = self.digest.wrapping_sub(old);
        }
        if let Some(new) = new {
            self.digest = self.digest.wrapping_add(new);
        }
    }
}

/// The revision that a connection reads.
pub(super) fn load_revision(connection: &Connection) -> Result<Revision, SqliteFailure> {
    let sql = "SELECT revision FROM store";
    let revision = connection.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?;
    let Some(revision) = revision else {
        return Err(SqliteFailure::Damaged("the row about the store is missing".to_owned()));
    };
    Ok(Revision::new(revision_number(revision)?))
}

/// The revision of a key, and its part of the digest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) revision: u64,
    pub(super) checksum: i64,
}

/// Reads the mark of a key in a store at revision `newest`.
pub(super) fn load_mark(
    connection: &Connection,
    key: &Key,
    newest: u64,
) -> Result<Option<Mark>, SqliteFailure> {
    let sql = "SELECT revision, checksum FROM entry WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let revision = believable_revision(row, 0, newest);
        Ok(Mark { revision, checksum: row.get(1).unwrap_or_default() })
    };
    Ok(statement.query_row([key.as_bytes()], read).optional()?)
}

/// Reads a key in a store at revision `newest`.
pub(super) fn load_entry(
    connection: &Connection,
    key: &Key,
    newest: u64,
) -> Result<Option<Versioned>, SqliteFailure> {
    let sql = "SELECT value, revision, session, checksum FROM entry WHERE key = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([key.as_bytes()])?;
    Ok(rows.next()?.map(|row| read_any_entry(row, key, 0, newest)))
}

/// Reads an entry with [`read_entry`]. A row that differs from what was written is marked as
/// damaged.
pub(super) fn read_any_entry(row: &Row<'_>, key: &Key, first: usize, newest: u64) -> Versioned {
    read_entry(row, key, first).unwrap_or_else(|_| {
        let revision = Revision::new(believable_revision(row, first + 1, newest));
        Versioned { is_damaged: true, ..Versioned::new(Bytes::new(), revision, None) }
    })
}

/// The revision of a row that may be damaged. An impossible revision becomes zero, at which nothing
/// was ever written. So a commit can still name the row, to replace or delete it, and no caller
/// waits for a future revision.
fn believable_revision(row: &Row<'_>, column: usize, newest: u64) -> u64 {
    let stored = row.get::<_, i64>(column).ok().and_then(|stored| u64::try_from(stored).ok());
    stored.filter(|revision| *revision <= newest).unwrap_or_default()
}

/// Reads value, revision, session and checksum from the columns from `first` on. Fails if they are
/// not what was written.
pub(super) fn read_entry(
    row: &Row<'_>,
    key: &Key,
    first: usize,
) -> Result<Versioned, SqliteFailure> {
    let value = blob(row, first)?;
    let (revision, session): (i64, Option<i64>) = (row.get(first + 1)?, row.get(first + 2)?);
    if row.get::<_, i64>(first + 3)? != checksum(key.as_bytes(), value, revision, session) {
        return Err(SqliteFailure::Damaged(format!("the entry {key} is not what was written")));
    }
    let session = session.map(|session| SessionId::new(session.cast_unsigned()));
    let revision = Revision::new(revision_number(revision)?);
    Ok(Versioned::new(Bytes::copy_from_slice(value), revision, session))
}

pub(super) fn blob<'r>(row: &'r Row<'_>, column: usize) -> Result<&'r [u8], SqliteFailure> {
    match row.get_ref(column)? {
        ValueRef::Blob(bytes) => Ok(bytes),
        other => {
            let what = format!("{} where bytes should be", other.data_type());
            Err(SqliteFailure::Damaged(what))
        }
    }
}

/// A row's part of the digest. It detects damage, not tampering.
pub(super) fn checksum(key: &[u8], value: &[u8], revision: i64, session: Option<i64>) -> i64 {
    let mut hasher = blake3::Hasher::new();
    let mut front = [0; 25];
    let (lengths, rest) = front.split_at_mut(8);
    lengths.copy_from_slice(&u64::try_from(key.len()).unwrap_or(u64::MAX).to_le_bytes());
    let (revisions, sessions) = rest.split_at_mut(8);
    revisions.copy_from_slice(&revision.to_le_bytes());
    if let (Some(session), Some((present, number))) = (session, sessions.split_first_mut()) {
        *present = 1;
        number.copy_from_slice(&session.to_le_bytes());
    }
    hasher.update(&front).update(key).update(value);
    let mut first = [0; 8];
    hasher.finalize_xof().fill(&mut first);
    i64::from_le_bytes(first)
}

/// Converts a stored number to a revision. The limit leaves room for the positions of changes, and
/// counting never reaches it.
pub(super) fn revision_number(stored: i64) -> Result<u64, SqliteFailure> {
    const LIMIT: u64 = i64::MAX.cast_unsigned() / CHANGES_PER_REVISION - 1;
    match u64::try_from(stored) {
        Ok(number) if number < LIMIT => Ok(number),
        _ => Err(SqliteFailure::Damaged(format!("{stored} is no revision"))),
    }
}

/// A session as it is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredSession {
    pub(super) id: SessionId,
    pub(super) owner: i64,
    pub(super) deadline_ms: i64,
}

pub(super) fn load_sessions(connection: &Connection) -> Result<Vec<StoredSession>, SqliteFailure> {
    let sql = "SELECT id, owner, deadline_ms FROM session ORDER BY id";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        let id = SessionId::new(row.get::<_, i64>(0)?.cast_unsigned());
        Ok(StoredSession { id, owner: row.get(1)?, deadline_ms: row.get(2)? })
    };
    let sessions = statement.query_map([], read)?;
    Ok(sessions.collect::<Result<_, _>>()?)
}

impl Changing<'_> {
    pub(super) fn sessions(&self) -> Result<Vec<StoredSession>, SqliteFailure> {
        load_sessions(self.connection())
    }

    pub(super) fn has_session(&self, session: SessionId) -> Result<bool, SqliteFailure> {
        let sql = "SELECT 1 FROM session WHERE id = ?1";
        let mut statement = self.connection().prepare_cached(sql)?;
        Ok(statement.exists([session.get().cast_signed()])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_covers_every_column() {
        let original = checksum(b"key", b"value", 7, Some(3));
        for changed in [
            checksum(b"kex", b"value", 7, Some(3)),
            checksum(b"key", b"valuf", 7, Some(3)),
            checksum(b"keyv", b"alue", 7, Some(3)),
            checksum(b"key", b"value", 8, Some(3)),
            checksum(b"key", b"value", 7, Some(4)),
            checksum(b"key", b"value", 7, None),
        ] {
            assert_ne!(original, changed);
        }
        assert_ne!(checksum(b"", b"", 0, None), checksum(b"", b"", 0, Some(0)));
    }

    #[test]
    fn numbers_that_are_no_revisions_are_damage() {
        assert!(revision_number(0).is_ok() && revision_number(1 << 46).is_ok());
        for damaged in [-1, i64::MIN, i64::MAX, i64::MAX / 65_536] {
            assert!(revision_number(damaged).is_err(), "{damaged}");
        }
    }
}
