//! Delivers changes to watches.
//!
//! Commits of this process are delivered as they are made. Commits of other processes are read from
//! the recorded changes when the version of the database changes.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rusqlite::Connection;

use super::error::SqliteFailure;
use super::readers::Readers;
use super::rows::{Head, blob};
use super::schema::CHANGES_PER_REVISION;
use crate::error::WatchError;
use crate::key::{Key, StoreRange};
use crate::store::{Revision, SessionId, Versioned};
use crate::watch::{Change, ChangeSender, ChangeSet, Changes};

/// All watches of this process.
#[derive(Debug)]
pub(super) struct Feed {
    path: PathBuf,
    readers: Arc<Readers>,
    /// Whether there may be watches, readable without the lock.
    watched: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watches: Vec<Watch>,
    /// The revision up to which all watches got changes. Unused while there are none.
    delivered: u64,
}

#[derive(Debug)]
struct Watch {
    range: StoreRange,
    after: u64,
    sender: ChangeSender,
}

impl Feed {
    pub(super) fn new(path: PathBuf, readers: Arc<Readers>) -> Self {
        Self { path, readers, watched: AtomicBool::new(false), state: Mutex::default() }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// Starts a watch, with the changes since `after`.
    pub(super) fn watch(
        &self,
        range: &StoreRange,
        after: Revision,
        capacity: usize,
    ) -> Result<Changes, WatchError> {
        let mut state = self.lock();
        // Set first, so that a commit after the read of the database sees the watch.
        self.watched.store(true, Ordering::SeqCst);
        let (sender, changes) = Changes::channel(capacity);
        let mut watch = Watch { range: range.clone(), after: after.get(), sender };
        let caught_up = self.readers.read(|connection| {
            let head = Head::load(connection)?;
            if after.get() < head.forgotten_revision {
                return Ok(None);
            }
            let mut wanted = true;
            read_changes(connection, after.get(), head.revision, |set| {
                wanted = wanted && watch.deliver(&set);
            })?;
            self.catch_up(&mut state, connection, &head)?;
            Ok(Some((head.revision, wanted)))
        });
        match caught_up {
            Ok(Some((now, wanted))) => {
                state.delivered = now;
                if wanted {
                    watch.after = watch.after.max(now);
                    state.watches.push(watch);
                }
                Ok(changes)
            }
            Ok(None) => Err(WatchError::Gap),
            Err(failure) => Err(WatchError::Store(failure.store_error(&self.path))),
        }
    }

    /// Delivers a commit of this process.
    pub(super) fn push(&self, sets: Vec<ChangeSet>) {
        let Some(first) = sets.first().map(|set| set.revision.get()) else { return };
        if !self.is_watched() {
            return;
        }
        let mut state = self.lock();
        if first > state.delivered + 1 {
            // Another commit was faster and has to be delivered first.
            drop(state);
            // If the read fails, the next check of the database repeats it.
            let _later = self.pull();
            return;
        }
        for set in sets {
            state.deliver(&set);
        }
        self.sweep(&mut state);
    }

    /// Delivers the recorded changes that were not delivered yet. Returns false if they could not
    /// be read and a watch still waits for them. Then the caller has to retry.
    #[must_use]
    pub(super) fn pull(&self) -> bool {
        let mut state = self.lock();
        if state.watches.is_empty() {
            self.sweep(&mut state);
            return true;
        }
        let pulled = self.readers.read(|connection| {
            let head = Head::load(connection)?;
            self.catch_up(&mut state, connection, &head)
        });
        let is_busy = pulled.as_ref().is_err_and(SqliteFailure::is_busy);
        if let Err(failure) = pulled
            && !is_busy
        {
            let error = failure.store_error(&self.path);
            for mut watch in state.watches.drain(..) {
                watch.sender.fail(WatchError::Store(error.clone()));
            }
        }
        self.sweep(&mut state);
        !is_busy
    }

    fn catch_up(
        &self,
        state: &mut State,
        connection: &Connection,
        head: &Head,
    ) -> Result<(), SqliteFailure> {
        if state.watches.is_empty() || state.delivered >= head.revision {
            return Ok(());
        }
        if state.delivered < head.forgotten_revision {
            for mut watch in state.watches.drain(..) {
                watch.sender.fail(WatchError::Gap);
            }
        } else {
            read_changes(connection, state.delivered, head.revision, |set| state.deliver(&set))?;
        }
        state.delivered = head.revision;
        Ok(())
    }

    fn sweep(&self, state: &mut State) {
        state.watches.retain(|watch| !watch.sender.is_closed());
        self.watched.store(!state.watches.is_empty(), Ordering::SeqCst);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&mut self, set: &ChangeSet) {
        if set.revision.get() > self.delivered {
            self.delivered = set.revision.get();
            self.watches.retain_mut(|watch| watch.deliver(set));
        }
    }
}

impl Watch {
    /// Delivers the changes in the range. Returns whether the watch continues.
    fn deliver(&mut self, set: &ChangeSet) -> bool {
        if set.revision.get() <= self.after {
            return true;
        }
        let in_range = set.changes.iter().filter(|change| self.range.contains(&change.key));
        let changes: Vec<_> = in_range.cloned().collect();
        changes.is_empty() || self.sender.send(ChangeSet { revision: set.revision, changes })
    }
}

/// Reads recorded changes after a revision, up to another.
fn read_changes(
    connection: &Connection,
    after: u64,
    up_to: u64,
    mut deliver: impl FnMut(ChangeSet),
) -> Result<(), SqliteFailure> {
    if after >= up_to {
        return Ok(());
    }
    let position = |revision: u64| (revision + 1).saturating_mul(CHANGES_PER_REVISION);
    let sql = "SELECT position, key, value, session FROM change \
               WHERE position >= ?1 AND position < ?2 ORDER BY position";
    let mut statement = connection.prepare_cached(sql)?;
    let bounds = (position(after).cast_signed(), position(up_to).cast_signed());
    let mut rows = statement.query(bounds)?;
    let mut current: Option<ChangeSet> = None;
    while let Some(row) = rows.next()? {
        let stored = u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        let revision = Revision::new(stored / CHANGES_PER_REVISION);
        let key = Key::from(blob(row, 1)?.to_vec());
        let value: Option<Vec<u8>> = row.get(2)?;
        let session: Option<i64> = row.get(3)?;
        let session = session.map(|session| SessionId::new(session.cast_unsigned()));
        let now = value.map(|value| Versioned::new(Bytes::from(value), revision, session));
        let change = Change { key, now };
        match &mut current {
            Some(set) if set.revision == revision => set.changes.push(change),
            _ => {
                let next = ChangeSet { revision, changes: vec![change] };
                current.replace(next).into_iter().for_each(&mut deliver);
            }
        }
    }
    current.into_iter().for_each(deliver);
    Ok(())
}
