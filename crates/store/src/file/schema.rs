//! The schema of the database, and its connections.
//!
//! Users may open it with their own tools, so the tables have comments. The view `readable` shows
//! keys as text.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Row};

use super::PRIVATE_MODE;
use super::error::{FileOpenError, SqliteFailure};
use crate::folder::sync_folder;

/// The application id of the file: "Shwr".
pub(super) const APPLICATION_ID: i64 = 0x5368_7772;

/// The latest schema version that this program supports.
pub(super) const SCHEMA_VERSION: i64 = 1;

/// How many changes a revision may have, in `change.position`.
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

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Commits, durably.
    Writer,
    /// Writes data that need not survive the machine: the deadlines of sessions.
    Upkeep,
    /// Reads.
    Reader,
}

/// The number of pages of the log after the last commit of a connection.
pub(super) type LogPages = Arc<AtomicI32>;

/// The timeout of a reader. Only recovery after a crash and other tools make it wait.
pub(super) const READER_PATIENCE: Duration = Duration::from_secs(5);

/// Connects to an existing database.
pub(super) fn connect(
    path: &Path,
    role: Role,
    timeout: Duration,
) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(timeout)?;
    set_up(&connection, role)?;
    Ok(connection)
}

fn set_up(connection: &Connection, role: Role) -> Result<(), rusqlite::Error> {
    connection.set_prepared_statement_cache_capacity(64);
    // Otherwise, closing a connection would lock out all others while it checkpoints the log.
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

/// Makes a connection report the length of the log after each commit, instead of checkpointing it
/// within one.
pub(super) fn count_log_pages(connection: &mut Connection) -> Result<LogPages, rusqlite::Error> {
    let pages = LogPages::default();
    let counted = Arc::clone(&pages);
    connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, now| {
        counted.store(now, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}

/// How a log is checkpointed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoint {
    /// As much as possible without waiting for readers.
    Passive,
    /// Completely, and then the log is emptied.
    Truncate,
}

/// Checkpoints the log. Returns whether all of it was.
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

/// Creates the database if it does not exist, and checks that it is a store. The caller is the only
/// user.
pub(super) fn prepare(path: &Path) -> Result<Connection, FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        create_file(path)?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
    connection.busy_timeout(READER_PATIENCE).map_err(failure)?;
    if identify(&connection, path)? == Content::Nothing {
        let what = "it is empty, and a new store is never empty".to_owned();
        return Err(FileOpenError::Damaged { path: path.to_owned(), what });
    }
    let journal = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
    require_log(journal, path)?;
    set_up(&connection, Role::Writer).map_err(failure)?;
    Ok(connection)
}

/// Creates the database under another name, and gives it its name when it is complete. So an empty
/// database is never a new one.
fn create_file(path: &Path) -> Result<(), FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    let failed =
        |error: io::Error| FileOpenError::Failed { path: path.to_owned(), source: Box::new(error) };
    let log = beside(path, "-wal");
    if log.metadata().is_ok_and(|log| log.len() > 0) {
        let what = "it is missing, but its log is there".to_owned();
        return Err(FileOpenError::Damaged { path: path.to_owned(), what });
    }
    let new = path.with_extension("new");
    for leftover in ["", "-wal", "-shm", "-journal"].map(|suffix| beside(&new, suffix)) {
        remove_if_there(&leftover).map_err(failed)?;
    }
    // The log and its index get the permissions of the database.
    let mut options = File::options();
    options.write(true).create_new(true).mode(PRIVATE_MODE);
    let file = options.open(&new).map_err(failed)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&new, flags).map_err(failure)?;
    create(&connection).map_err(failure)?;
    let journal = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0));
    require_log(journal, path)?;
    connection.close().map_err(|(_, error)| failure(error))?;
    file.sync_all().map_err(failed)?;
    for leftover in [log, beside(path, "-shm")] {
        remove_if_there(&leftover).map_err(failed)?;
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let named = fs::rename(&new, path).and_then(|()| sync_folder(folder));
    named.map_err(failed)
}

/// A file of SQLite beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Checks that a database that other processes use is a store.
pub(super) fn check(path: &Path) -> Result<(), FileOpenError> {
    let failure = |error| FileOpenError::from_failure(path, SqliteFailure::Sqlite(error));
    let connection = connect(path, Role::Reader, READER_PATIENCE).map_err(failure)?;
    if identify(&connection, path)? == Content::Nothing {
        let what = "it is empty although a process uses it".to_owned();
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

/// Refuses a database without a write-ahead log. Crash safety and concurrent readers depend on it,
/// and SQLite reports another journal mode instead of failing.
fn require_log(journal: rusqlite::Result<String>, path: &Path) -> Result<(), FileOpenError> {
    match journal {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(mode) => Err(FileOpenError::Failed {
            path: path.to_owned(),
            source: format!("its journal mode is `{mode}` instead of a write-ahead log").into(),
        }),
        Err(error) => Err(FileOpenError::from_failure(path, SqliteFailure::Sqlite(error))),
    }
}

/// All or nothing.
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
    fn a_database_without_a_log_is_refused() {
        let path = Path::new("/data/state.db");
        for other in ["delete", "memory", "off"] {
            let refused = require_log(Ok(other.to_owned()), path).unwrap_err().to_string();
            assert!(refused.contains("/data/state.db") && refused.contains(other), "{refused}");
        }
        require_log(Ok("wal".to_owned()), path).unwrap();
    }
}
