//! Connections that read, each at one revision, and the revisions that scans hold.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

use super::error::SqliteFailure;
use super::rows::{blob, load_revision, read_any_entry};
use super::schema::{READER_PATIENCE, Role, connect};
use crate::key::{Key, StoreRange};
use crate::store::{Continuation, Revision, ScanFrom, ScanPage};

/// The largest number of idle connections.
const IDLE_MAX: usize = 8;
/// The largest number of entries on a page.
const PAGE_ENTRIES_MAX: usize = 4_096;
/// A page ends when it has this many bytes.
const PAGE_BYTES: usize = 4 * 1_024 * 1_024;

/// Reads, concurrently with the writer.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    /// The revisions that scans hold, the oldest first.
    pins: Mutex<VecDeque<Pin>>,
    pins_max: usize,
    pin_age: Duration,
}

/// A revision that stays readable. While it is held, the log cannot restart.
#[derive(Clone, Debug)]
struct Pin {
    revision: Revision,
    connection: Arc<Mutex<Connection>>,
    since: Instant,
    /// The number of scans at this revision.
    scans: usize,
}

/// A page, or the revision of the scan is gone.
pub(super) enum Scanned {
    Page(ScanPage),
    Moved,
}

impl Readers {
    pub(super) fn new(path: PathBuf, pins_max: usize, pin_age: Duration) -> Self {
        Self { path, idle: Mutex::default(), pins: Mutex::default(), pins_max, pin_age }
    }

    /// Reads at one revision.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, SqliteFailure>,
    ) -> Result<T, SqliteFailure> {
        let connection = self.begin()?;
        let result = read(&connection);
        if result.as_ref().is_ok() {
            self.end(connection);
        }
        result
    }

    pub(super) fn scan(
        &self,
        range: &StoreRange,
        page: &ScanFrom,
    ) -> Result<Scanned, SqliteFailure> {
        match &page.after {
            None => self.scan_now(range, page).map(Scanned::Page),
            Some(after) => match self.pinned(after.revision) {
                Some(pin) => self.scan_pinned(&pin, range, page).map(Scanned::Page),
                // The revision may still be the latest.
                None if self.read(load_revision)? == after.revision => {
                    let scanned = self.scan_now(range, page)?;
                    Ok(if scanned.revision == after.revision {
                        Scanned::Page(scanned)
                    } else {
                        Scanned::Moved
                    })
                }
                None => Ok(Scanned::Moved),
            },
        }
    }

    /// Drops revisions that were held for too long.
    pub(super) fn drop_old_pins(&self) {
        let mut pins = lock(&self.pins);
        while pins.front().is_some_and(|pin| pin.since.elapsed() > self.pin_age) {
            pins.pop_front();
        }
    }

    /// Drops all held revisions and idle connections.
    pub(super) fn clear(&self) {
        lock(&self.pins).clear();
        lock(&self.idle).clear();
    }

    pub(super) fn has_pins(&self) -> bool {
        !lock(&self.pins).is_empty()
    }

    fn begin(&self) -> Result<Connection, SqliteFailure> {
        let idle = lock(&self.idle).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path, Role::Reader, READER_PATIENCE)?,
        };
        connection.prepare_cached("BEGIN")?.execute([])?;
        Ok(connection)
    }

    /// Ends a read transaction and keeps the connection, unless that fails.
    fn end(&self, connection: Connection) {
        let ended = connection.prepare_cached("COMMIT").and_then(|mut end| end.execute([]));
        let mut idle = lock(&self.idle);
        if ended.is_ok() && idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }

    fn scan_now(&self, range: &StoreRange, page: &ScanFrom) -> Result<ScanPage, SqliteFailure> {
        let connection = self.begin()?;
        let revision = load_revision(&connection)?;
        let scanned = read_page(&connection, revision, range, page)?;
        if scanned.next.is_some() {
            self.pin(revision, connection);
        } else {
            self.end(connection);
        }
        Ok(scanned)
    }

    fn scan_pinned(
        &self,
        pin: &Pin,
        range: &StoreRange,
        page: &ScanFrom,
    ) -> Result<ScanPage, SqliteFailure> {
        let scanned = read_page(&lock(&pin.connection), pin.revision, range, page)?;
        if scanned.next.is_none() {
            let mut pins = lock(&self.pins);
            if let Some(at) = pins.iter().position(|held| held.revision == pin.revision)
                && let Some(held) = pins.get_mut(at)
            {
                held.scans = held.scans.saturating_sub(1);
                if held.scans == 0 {
                    pins.remove(at);
                }
            }
        }
        Ok(scanned)
    }

    fn pinned(&self, revision: Revision) -> Option<Pin> {
        lock(&self.pins).iter().find(|pin| pin.revision == revision).cloned()
    }

    fn pin(&self, revision: Revision, connection: Connection) {
        let mut pins = lock(&self.pins);
        if let Some(pin) = pins.iter_mut().find(|pin| pin.revision == revision) {
            pin.scans += 1;
            drop(pins);
            return self.end(connection);
        }
        if pins.len() >= self.pins_max {
            pins.pop_front();
        }
        let connection = Arc::new(Mutex::new(connection));
        pins.push_back(Pin { revision, connection, since: Instant::now(), scans: 1 });
    }
}

fn read_page(
    connection: &Connection,
    revision: Revision,
    range: &StoreRange,
    page: &ScanFrom,
) -> Result<ScanPage, SqliteFailure> {
    let (start, from) = match &page.after {
        Some(next) if next.after >= *range.start() => (&next.after, ">"),
        _ => (range.start(), ">="),
    };
    let to = if range.end().is_some() { "AND key < ?2" } else { "" };
    let sql = format!(
        "SELECT key, value, revision, session, checksum FROM entry \
         WHERE key {from} ?1 {to} ORDER BY key"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let bound = |key: &Key| Value::Blob(key.as_bytes().to_vec());
    let bounds = [Some(start), range.end()].into_iter().flatten().map(bound);
    let mut rows = statement.query(rusqlite::params_from_iter(bounds))?;
    let limit = page.limit.clamp(1, PAGE_ENTRIES_MAX);
    let (mut entries, mut bytes, mut next) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        if entries.len() >= limit || bytes >= PAGE_BYTES {
            next = entries
                .last()
                .map(|(key, _): &(Key, _)| Continuation { revision, after: key.clone() });
            break;
        }
        let key = Key::from(blob(row, 0)?.to_vec());
        let found = read_any_entry(row, &key, 1, revision.get());
        bytes += key.as_bytes().len() + found.value.len();
        entries.push((key, found));
    }
    Ok(ScanPage { revision, entries, next })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
