//! Reads and writes of the store past all processes.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shardwright_store::memory::MemoryStore;
use shardwright_store::{Commit, Key, Revision, ScanFrom, SessionId, Store, StoreRange, Versioned};

use super::faults::{Author, Faults};

/// Most entries of a range that are read.
const ENTRIES_MAX: usize = 1_000;

/// The current value of a key.
pub(crate) fn current(store: &MemoryStore, key: &Key) -> Option<Versioned> {
    let newest = Revision::new(u64::MAX);
    let loaded = store.inspect(|state| state.load(std::slice::from_ref(key), newest));
    loaded.values.into_iter().next().flatten()
}

/// The sessions to which entries of a range are bound.
pub(crate) fn sessions_in(store: &MemoryStore, range: &StoreRange) -> Vec<SessionId> {
    let (page, newest) = (ScanFrom::first(ENTRIES_MAX), Revision::new(u64::MAX));
    let found = store.inspect(|state| state.scan(range, &page, newest));
    let entries = found.map(|page| page.entries).unwrap_or_default();
    entries.iter().filter_map(|(_, found)| found.session).collect()
}

/// Commits in the name of no process. Returns whether the commit was applied.
pub(crate) fn commit(store: &MemoryStore, faults: &Faults, commit: Commit) -> bool {
    // An in-memory store answers at once.
    let polled = pin!(store.commit(commit)).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(revision)) = polled else { return false };
    let author = Author { process: 0, task: None, by_fault: true };
    faults.lock().authors.insert(revision, author);
    true
}

/// When the next session expires.
pub(crate) fn next_expiry_us(store: &MemoryStore, now_us: u64) -> Option<u64> {
    store.until_next_expiry().map(|left| now_us + (left.as_micros() as u64).max(1))
}
