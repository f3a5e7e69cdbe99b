//! Recovery by the first user of a store, while it is the only one.

use std::path::Path;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use super::error::{FileOpenError, SqliteFailure};
use super::rows::{Head, blob, read_entry};
use super::schema::{Checkpoint, checkpoint, data_version, prepare};
use crate::key::Key;

/// Creates the store if it does not exist, checks it if the last user did not close it, and ends
/// all sessions, because no process owns them. It calls `is_alive` regularly.
///
/// On a full disk the store can still be read. Then the first writer updates the marks later, and
/// the maintenance thread ends the sessions.
pub(super) fn recover(
    path: &Path,
    is_alive: impl FnMut() + Send + 'static,
) -> Result<(), FileOpenError> {
    let mut connection = prepare(path)?;
    let recovered = send_heartbeats(&mut connection, is_alive).and_then(|()| {
        if Head::load(&connection)?.closed {
            unless_full(mark_in_use(&connection))?;
        } else {
            check(&connection)?;
        }
        unless_full(restart(&connection))
    });
    recovered.map_err(|failure| FileOpenError::from_failure(path, failure))
}

/// SQLite instructions between two heartbeats. A check of the whole file needs two per page, so
/// this covers a few megabytes. Heartbeats have a minimum interval of their own.
const INSTRUCTIONS: i32 = 1_000;

fn send_heartbeats(
    connection: &mut Connection,
    mut is_alive: impl FnMut() + Send + 'static,
) -> Result<(), SqliteFailure> {
    let go_on = move || {
        is_alive();
        false
    };
    Ok(connection.progress_handler(INSTRUCTIONS, Some(go_on))?)
}

fn unless_full(result: Result<(), SqliteFailure>) -> Result<(), SqliteFailure> {
    result.or_else(|failure| if failure.is_full() { Ok(()) } else { Err(failure) })
}

/// Marks the store as closed by its last user.
pub(super) fn close(path: &Path) -> Result<(), FileOpenError> {
    let connection = prepare(path)?;
    let closed = data_version(&connection).and_then(|version| {
        // If another tool is in the way, the store counts as not closed, and the next user checks
        // it.
        if checkpoint(&connection, Checkpoint::Truncate)? {
            mark_closed(&connection, version)?;
        }
        Ok(())
    });
    closed.map_err(|failure| FileOpenError::from_failure(path, failure))
}

/// Marks the store as in use, if it is marked as closed.
pub(super) fn mark_in_use(connection: &Connection) -> Result<(), SqliteFailure> {
    if Head::load(connection)?.closed {
        mark(connection, false, |_| Ok(true))?;
    }
    Ok(())
}

/// Marks the store as closed, unless it was written after this version.
fn mark_closed(connection: &Connection, version: i64) -> Result<(), SqliteFailure> {
    mark(connection, true, |connection| Ok(data_version(connection)? == version))
}

/// Stores whether the store is closed. The log is empty before, so it holds only this mark.
/// Whatever part of the log is lost, the database is never marked as closed while other pages are
/// checkpointed.
fn mark(
    connection: &Connection,
    closed: bool,
    is_wanted: impl FnOnce(&Connection) -> Result<bool, SqliteFailure>,
) -> Result<(), SqliteFailure> {
    let writing = write(connection)?;
    // Loaded only now, because no other process can write any more.
    let mut head = Head::load(&writing)?;
    if !is_wanted(&writing)? {
        return Ok(());
    }
    head.closed = closed;
    head.save(&writing)?;
    writing.commit()?;
    // On a full disk, the store can still be read.
    unless_full(checkpoint(connection, Checkpoint::Truncate).map(drop))
}

fn write(connection: &Connection) -> Result<Transaction<'_>, SqliteFailure> {
    Ok(Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?)
}

/// Checks that all entries are from one revision.
///
/// SQLite truncates a damaged log at the damage. If later pages were already checkpointed, the
/// database mixes two revisions. Only a digest of all entries shows this.
fn check(connection: &Connection) -> Result<(), SqliteFailure> {
    let moment = connection.unchecked_transaction()?;
    let head = Head::load(&moment)?;
    let read = |row: &Row<'_>| row.get::<_, String>(0);
    let verdict: String = moment.query_row("PRAGMA integrity_check(1)", [], read)?;
    if verdict != "ok" {
        return Err(SqliteFailure::Damaged(verdict));
    }
    let sql = "SELECT key, value, revision, session, checksum FROM entry";
    let mut statement = moment.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut digest = 0_i64;
    while let Some(row) = rows.next()? {
        let key = Key::from(blob(row, 0)?.to_vec());
        let entry = read_entry(row, &key, 1)?;
        if entry.revision.get() > head.revision {
            let what = format!("the entry {key} is newer than the store");
            return Err(SqliteFailure::Damaged(what));
        }
        digest = digest.wrapping_add(row.get(4)?);
    }
    if digest != head.digest {
        let what = "its entries are from different revisions, or some are missing".to_owned();
        return Err(SqliteFailure::Damaged(what));
    }
    Ok(())
}

fn restart(connection: &Connection) -> Result<(), SqliteFailure> {
    let writing = write(connection)?;
    let mut head = Head::load(&writing)?;
    let sql = "SELECT count(*) FROM entry WHERE session IS NOT NULL";
    let bound: i64 = writing.query_row(sql, [], |row| row.get(0))?;
    if bound > 0 {
        let sql = "SELECT checksum FROM entry WHERE session IS NOT NULL";
        let mut statement = writing.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            head.replace(Some(row.get(0)?), None);
        }
        writing.execute("DELETE FROM entry WHERE session IS NOT NULL", [])?;
        head.revision += 1;
    }
    // No process can have watched.
    writing.execute_batch("DELETE FROM session; DELETE FROM change;")?;
    head.forgotten_revision = head.revision;
    head.forgotten_bytes = head.change_bytes;
    head.save(&writing)?;
    Ok(writing.commit()?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn store() -> (tempfile::TempDir, Connection, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        let connection = prepare(&path).unwrap();
        (folder, connection, prepare(&path).unwrap())
    }

    fn write_something(connection: &Connection) {
        let sql = "UPDATE store SET revision = revision + 1, closed = 0";
        assert_eq!(connection.execute(sql, []).unwrap(), 1);
    }

    #[test]
    fn a_write_after_the_checkpoint_prevents_the_closed_mark() {
        let (_folder, connection, other) = store();
        write_something(&other);
        let version = data_version(&connection).unwrap();
        assert!(checkpoint(&connection, Checkpoint::Truncate).unwrap());
        write_something(&other);
        mark_closed(&connection, version).unwrap();
        let head = Head::load(&connection).unwrap();
        assert_eq!((head.revision, head.closed), (2, false));
        let version = data_version(&connection).unwrap();
        assert!(checkpoint(&connection, Checkpoint::Truncate).unwrap());
        mark_closed(&connection, version).unwrap();
        let head = Head::load(&other).unwrap();
        assert_eq!((head.revision, head.closed), (2, true));
    }

    #[test]
    fn a_long_check_sends_heartbeats() {
        let (_folder, mut connection, _) = store();
        let signs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&signs);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        send_heartbeats(&mut connection, count).unwrap();
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) \
                   SELECT max(i) FROM n";
        let counted_to: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(counted_to, 300_000);
        assert!(signs.load(Ordering::Relaxed) > 0);
    }
}
