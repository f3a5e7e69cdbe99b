//! What the database looks like, and how it is spoken to.
//!
//! People will open it with their own tools, so the tables say what they hold; the view `readable`
//! shows keys as text.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row};

use super::error::{FileOpenError, SqliteFailure};

/// Marks the file as ours; it spells "Shwr".
pub(super) const APPLICATION_ID: i64 = 0x5368_7772;

/// The latest version that this program knows.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// Places that a revision has for its changes, in `change.position`.
pub(super) const CHANGES_PER_REVISION: u64 = 1 << 16;

const SCHEMA: &str = "
-- One row about the whole store.
CREATE TABLE store (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id TEXT NOT NULL,                    -- drawn at random when the store was made
    revision INTEGER NOT NULL,           -- of the last change
    digest INTEGER NOT NULL,             -- the sum of all entry.checksum, modulo 2^64
    forgotten_revision INTEGER NOT NULL, -- changes up to here are no longer in `change`
    forgotten_bytes INTEGER NOT NULL,    -- change.bytes_before of the first that is
    change_bytes INTEGER NOT NULL,       -- of all changes ever
    last_session INTEGER NOT NULL,
    last_owner INTEGER NOT NULL,
    closed INTEGER NOT NULL              -- whether the last user has closed the store in order
) STRICT;

-- What is stored.
CREATE TABLE entry (
    key BLOB PRIMARY KEY,
    value BLOB NOT NULL,
    revision INTEGER NOT NULL,           -- of the commit that wrote it
    session INTEGER,                     -- goes away with it
    checksum INTEGER NOT NULL            -- of the columns before
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_by_session ON entry (session) WHERE session IS NOT NULL;

-- The latest changes, for those who watch.
CREATE TABLE change (
    position INTEGER PRIMARY KEY,        -- revision * 65536 + place within the commit
    key BLOB NOT NULL,
    value BLOB,                          -- none if the key went away
    session INTEGER,
    bytes_before INTEGER NOT NULL        -- store.change_bytes before this one
) STRICT;

CREATE TABLE session (
    id INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL,              -- whose file in `locks` is locked while it lives
    ttl_ms INTEGER NOT NULL,
    deadline_ms INTEGER NOT NULL         -- since the machine was started
) STRICT;

CREATE VIEW readable AS
    SELECT CAST(key AS TEXT) AS key, length(value) AS bytes, revision, session, hex(value) AS value
    FROM entry;
CREATE VIEW readable_change AS
    SELECT position / 65536 AS revision, CAST(key AS TEXT) AS key,
        CASE WHEN value IS NULL THEN 'gone' ELSE length(value) || ' bytes' END AS now, session
    FROM change;

INSERT INTO store VALUES (1, lower(hex(randomblob(16))), 0, 0, 0, 0, 0, 0, 0, 1);
";

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Commits, durably.
    Writer,
    /// Writes what need not outlive the machine: how long sessions last.
    Upkeep,
    /// Reads.
    Reader,
}

/// How many pages the log has, as the last commit of a connection knew it.
pub(super) type LogPages = Arc<AtomicI32>;

/// How long a reader waits. Only recovery after a crash and other tools make it wait.
pub(super) const READER_PATIENCE: Duration = Duration::from_secs(5);

/// Connects to a database that is there.
pub(super) fn connect(
    path: &Path,
    role: Role,
    patience: Duration,
) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    set_up(&connection, role)?;
    Ok(connection)
}

fn set_up(connection: &Connection, role: Role) -> Result<(), rusqlite::Error> {
    connection.set_prepared_statement_cache_capacity(64);
    // Closing a connection would otherwise lock all others out while it moves the log.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let synchronous = if role == Role::Writer { "FULL" } else { "NORMAL" };
    connection.execute_batch(&format!(
        "PRAGMA synchronous = {synchronous};
         PRAGMA query_only = {};
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -16384;
         PRAGMA journal_size_limit = 67108864;",
        u8::from(role == Role::Reader),
    ))
}

/// Has a connection report how long the log is after each commit, instead of moving it into the
/// database in the middle of one.
pub(super) fn count_log_pages(connection: &mut Connection) -> Result<LogPages, rusqlite::Error> {
    let pages = LogPages::default();
    let counted = Arc::clone(&pages);
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, now| {
        counted.store(now, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}

/// How a log is moved into the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// As much of it as can be without waiting for readers.
    Passive,
    /// All of it, and then it is emptied.
    Truncate,
}

/// Moves the log into the database. Returns whether all of it was.
pub(super) fn checkpoint(connection: &Connection, how: Checkpoint) -> Result<bool, SqliteFailure> {
    let sql = match how {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get(2)?));
    let (blocked, pages, moved): (_, _, i64) = statement.query_row([], read)?;
    Ok(blocked == 0 && pages == moved)
}

/// A number that changes when another connection has written.
pub(super) fn data_version(connection: &Connection) -> Result<i64, SqliteFailure> {
    let mut statement = connection.prepare_cached("PRAGMA data_version")?;
    Ok(statement.query_row([], |row| row.get(0))?)
}

/// Makes the database if it is not there, and checks that it is ours. The caller has it alone.
pub(super) fn prepare(path: &Path) -> Result<Connection, FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
    connection.busy_timeout(READER_PATIENCE).map_err(failure)?;
    let content = identify(&connection, path)?;
    let journal = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
    require_log(journal, path)?;
    if content == Content::Nothing {
        create(&connection).map_err(failure)?;
    }
    set_up(&connection, Role::Writer).map_err(failure)?;
    Ok(connection)
}

/// Checks that a database that others use is ours as well.
pub(super) fn check(path: &Path) -> Result<(), FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    let connection = connect(path, Role::Reader, READER_PATIENCE).map_err(failure)?;
    if identify(&connection, path)? == Content::Nothing {
        let what = "it is empty, though a process uses it".to_owned();
        return Err(FileOpenError::Damaged { path: path.to_owned(), what });
    }
    require_log(connection.pragma_query_value(None, "journal_mode", |row| row.get(0)), path)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Nothing,
    Ours,
}

fn identify(connection: &Connection, path: &Path) -> Result<Content, FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    let pragma = |name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failure)
    };
    let (application, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(tables, [], |row| row.get(0)).map_err(failure)?;
    let path = || path.to_owned();
    match (application, version) {
        (0, 0) if tables == 0 => Ok(Content::Nothing),
        (APPLICATION_ID, SCHEMA_VERSION) => Ok(Content::Ours),
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => {
            Err(FileOpenError::Newer { path: path(), found, known: SCHEMA_VERSION })
        }
        (APPLICATION_ID, found) => {
            let what = format!("schema version {found} never existed");
            Err(FileOpenError::Damaged { path: path(), what })
        }
        _ => Err(FileOpenError::Foreign { path: path() }),
    }
}

/// Refuses a database that keeps its journal in any other way than as a log beside it. What is
/// promised about crashes and about readers beside a writer is true only so, and SQLite says how it
/// really keeps it instead of refusing.
fn require_log(journal: rusqlite::Result<String>, path: &Path) -> Result<(), FileOpenError> {
    match journal {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(mode) => Err(FileOpenError::Failed {
            path: path.to_owned(),
            source: format!("it keeps its journal as `{mode}`, and not as a log beside it").into(),
        }),
        Err(error) => Err(FileOpenError::from_failure(path, SqliteFailure::Sqlite(error))),
    }
}

/// All or nothing: a process that dies here leaves an empty database behind.
fn create(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {SCHEMA_VERSION};
         {SCHEMA}
         COMMIT;"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_keeps_no_log_is_refused() {
        let path = Path::new("/data/state.db");
        for other in ["delete", "memory", "off"] {
            let refused = require_log(Ok(other.to_owned()), path).unwrap_err().to_string();
            assert!(refused.contains("/data/state.db") && refused.contains(other), "{refused}");
        }
        require_log(Ok("wal".to_owned()), path).unwrap();
    }
}
