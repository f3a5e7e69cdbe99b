//! What the first one to open a store does, while it has the store alone.

use std::path::Path;

use rusqlite::{Connection, Row, Transaction, TransactionBehavior};

use super::error::{FileOpenError, SqliteFailure};
use super::rows::{Head, blob, read_entry};
use super::schema::{Checkpoint, checkpoint, data_version, prepare};
use crate::key::Key;

/// Makes the store if it is not there; checks it if the last user did not close it; ends all
/// sessions, since there is no process that could own one. It calls `is_alive` now and then.
///
/// A full disk does not prevent reading. Then the notes are left for the first writer
/// when there is room again, and the sessions for the thread that looks after them.
pub(super) fn recover(
    path: &Path,
    is_alive: impl FnMut() + Send + 'static,
) -> Result<(), FileOpenError> {
    let mut connection = prepare(path)?;
    let recovered = show_life(&mut connection, is_alive).and_then(|()| {
        if Head::load(&connection)?.closed {
            unless_full(mark_in_use(&connection))?;
        } else {
            check(&connection)?;
        }
        unless_full(restart(&connection))
    });
    recovered.map_err(|failure| FileOpenError::from_failure(path, failure))
}

/// Instructions of the database between two signs of life. A check of the whole file counts two
/// for a page, so that this is a few megabytes then; signs are not given more often than makes
/// sense anyway.
const INSTRUCTIONS: i32 = 1_000;

fn show_life(
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

/// Notes that the last user has closed the store.
pub(super) fn close(path: &Path) -> Result<(), FileOpenError> {
    let connection = prepare(path)?;
    let closed = data_version(&connection).and_then(|version| {
        // If another tool is in the way, the store counts as not closed, and is checked.
        if checkpoint(&connection, Checkpoint::Truncate)? {
            mark_closed(&connection, version)?;
        }
        Ok(())
    });
    closed.map_err(|failure| FileOpenError::from_failure(path, failure))
}

/// Notes that the store is in use, if it counts as closed.
pub(super) fn mark_in_use(connection: &Connection) -> Result<(), SqliteFailure> {
    if Head::load(connection)?.closed {
        mark(connection, false, |_| Ok(true))?;
    }
    Ok(())
}

/// Notes that the store is closed, unless there was a write since it had this version.
fn mark_closed(connection: &Connection, version: i64) -> Result<(), SqliteFailure> {
    mark(connection, true, |connection| Ok(data_version(connection)? == version))
}

/// Notes, in the database itself, whether the store is closed. The log is empty before, and only
/// this is in it: whatever part of it should get lost, the database is never taken for closed while
/// something else is being moved into it.
fn mark(
    connection: &Connection,
    closed: bool,
    is_wanted: impl FnOnce(&Connection) -> Result<bool, SqliteFailure>,
) -> Result<(), SqliteFailure> {
    let writing = write(connection)?;
    // Only now, since no other process can write any more.
    let mut head = Head::load(&writing)?;
    if !is_wanted(&writing)? {
        return Ok(());
    }
    head.closed = closed;
    head.save(&writing)?;
    writing.commit()?;
    // Where there is no room, what is stored can still be read.
    unless_full(checkpoint(connection, Checkpoint::Truncate).map(drop))
}

fn write(connection: &Connection) -> Result<Transaction<'_>, SqliteFailure> {
    Ok(Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?)
}

/// Checks that what is stored is what was committed at one moment.
///
/// SQLite's log is cut off where it is damaged, and that is well; but if a part of what is behind
/// the damage was moved into the database before, the database is a mixture of two moments. Only a
/// sum over everything shows.
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
        let what = "its parts are of different moments, or some are missing".to_owned();
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
    // There is no process that could have watched.
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
    fn who_writes_after_the_log_was_moved_is_not_closed_over() {
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
    fn who_checks_much_shows_that_it_lives() {
        let (_folder, mut connection, _) = store();
        let signs = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&signs);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        show_life(&mut connection, count).unwrap();
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000) \
                   SELECT max(i) FROM n";
        let counted_to: i64 = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(counted_to, 300_000);
        assert!(signs.load(Ordering::Relaxed) > 0);
    }
}
