//! What the first one to open a store does, while it has the store alone.

use std::path::Path;

use rusqlite::{Connection, Row};

use super::error::{OpenError, Trouble};
use super::rows::{Head, blob, read_entry};
use super::schema::{Checkpoint, checkpoint, prepare};
use crate::key::Key;

/// Makes the store if it is not there; checks it if the last user did not close it; ends all
/// sessions, since nobody is there that could own one.
pub(super) fn recover(path: &Path) -> Result<(), OpenError> {
    let connection = prepare(path)?;
    let recovered = Head::load(&connection).and_then(|mut head| {
        if head.closed {
            mark(&connection, &mut head, false)?;
        } else {
            check(&connection, &head)?;
        }
        begin_anew(&connection, head)
    });
    recovered.map_err(|trouble| OpenError::from_trouble(path, trouble))
}

/// Notes that the last user has closed the store.
pub(super) fn close(path: &Path) -> Result<(), OpenError> {
    let connection = prepare(path)?;
    let closed = Head::load(&connection).and_then(|mut head| {
        // If somebody's tool is in the way, the store counts as not closed, and is checked.
        if checkpoint(&connection, Checkpoint::Truncate)? {
            mark(&connection, &mut head, true)?;
        }
        Ok(())
    });
    closed.map_err(|trouble| OpenError::from_trouble(path, trouble))
}

/// Notes, in the database itself, whether the store was closed. The log is empty before, and only
/// this is in it: whatever part of it should get lost, the database is never taken for closed while
/// something else is being moved into it.
fn mark(connection: &Connection, head: &mut Head, closed: bool) -> Result<(), Trouble> {
    head.closed = closed;
    head.save(connection)?;
    match checkpoint(connection, Checkpoint::Truncate) {
        Ok(_) => Ok(()),
        // Where there is no room, what is stored can still be read.
        Err(trouble) if trouble.is_full() => Ok(()),
        Err(trouble) => Err(trouble),
    }
}

/// Checks that what is stored is what was committed at one moment.
///
/// SQLite's log is cut off where it is damaged, and that is well; but if a part of what is behind
/// the damage was moved into the database before, the database is a mixture of two moments. Only a
/// sum over everything tells.
fn check(connection: &Connection, head: &Head) -> Result<(), Trouble> {
    let read = |row: &Row<'_>| row.get::<_, String>(0);
    let verdict: String = connection.query_row("PRAGMA integrity_check(1)", [], read)?;
    if verdict != "ok" {
        return Err(Trouble::Damaged(verdict));
    }
    let sql = "SELECT key, value, revision, session, checksum FROM entry";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut digest = 0_i64;
    while let Some(row) = rows.next()? {
        let key = Key::from(blob(row, 0)?.to_vec());
        let entry = read_entry(row, &key, 1)?;
        if entry.revision.get() > head.revision {
            let what = format!("the entry {key} is newer than the store");
            return Err(Trouble::Damaged(what));
        }
        digest = digest.wrapping_add(row.get(4)?);
    }
    if digest != head.digest {
        let what = "its parts are of different moments, or some are missing".to_owned();
        return Err(Trouble::Damaged(what));
    }
    Ok(())
}

fn begin_anew(connection: &Connection, mut head: Head) -> Result<(), Trouble> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let sql = "SELECT count(*) FROM entry WHERE session IS NOT NULL";
    let bound: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    if bound > 0 {
        let sql = "SELECT checksum FROM entry WHERE session IS NOT NULL";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            head.replace(Some(row.get(0)?), None);
        }
        connection.execute("DELETE FROM entry WHERE session IS NOT NULL", [])?;
        head.revision += 1;
    }
    // Nobody is there that could have watched.
    connection.execute_batch("DELETE FROM session; DELETE FROM change;")?;
    head.forgotten_revision = head.revision;
    head.forgotten_bytes = head.change_bytes;
    head.save(connection)?;
    connection.execute_batch("COMMIT")?;
    Ok(())
}
