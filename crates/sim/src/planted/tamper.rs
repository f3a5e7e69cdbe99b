//! The seam for bugs between a process and the store.

use shardwright_store::memory::MemoryStore;
use shardwright_store::{
    Commit, CommitError, Expect, Expectation, Key, Revision, ScanPage, SessionError, Snapshot,
    Write,
};

/// Changes requests and replies between one process and the store. By default, none.
pub(crate) trait Tamper: Send + Sync {
    /// Returns the commit that reaches the store, or none if it is dropped and answered as done.
    fn commit(&self, _store: &MemoryStore, commit: Commit) -> Option<Commit> {
        Some(commit)
    }

    /// Returns the outcome that the sender of a commit gets.
    fn outcome(
        &self,
        _store: &MemoryStore,
        outcome: Result<Revision, CommitError>,
    ) -> Result<Revision, CommitError> {
        outcome
    }

    /// Returns the result of a load.
    fn loaded(&self, _keys: &[Key], snapshot: Snapshot) -> Snapshot {
        snapshot
    }

    /// Returns the result of a scan.
    fn scanned(&self, page: ScanPage) -> ScanPage {
        page
    }

    /// Returns the result of a keep-alive.
    fn kept_alive(&self, outcome: Result<(), SessionError>) -> Result<(), SessionError> {
        outcome
    }

    /// Whether a watch that lost a change continues without reporting a gap.
    fn swallows_gaps(&self) -> bool {
        false
    }
}

/// Changes nothing.
pub(crate) struct Untouched;

impl Tamper for Untouched {}

/// Builds a copy of a commit with other comparisons or writes.
pub(crate) fn rebuilt(
    commit: &Commit,
    compares: impl Fn(&Expectation) -> Option<Expect>,
    changes: impl Fn(&Write) -> Option<Write>,
) -> Option<Commit> {
    let mut builder = Commit::builder();
    let mut is_guarded = false;
    for expected in commit.expectations() {
        if let Some(expect) = compares(expected) {
            builder = builder.guard(expected.key.clone(), expect);
            is_guarded = true;
        }
    }
    for write in commit.writes().iter().filter_map(changes) {
        builder = builder.write(write);
    }
    if !is_guarded {
        // A commit needs at least one comparison.
        builder = builder.guard(Key::new("planted"), Expect::Absent);
    }
    builder.build().ok()
}

/// The commit without some of its comparisons.
pub(crate) fn uncompared(commit: &Commit, drops: impl Fn(&Key) -> bool) -> Option<Commit> {
    let compares = |it: &Expectation| (!drops(&it.key)).then_some(it.expect);
    rebuilt(commit, compares, |write| Some(write.clone()))
}

/// The commit with other writes.
pub(crate) fn rewritten(
    commit: &Commit,
    changes: impl Fn(&Write) -> Option<Write>,
) -> Option<Commit> {
    rebuilt(commit, |it| Some(it.expect), changes)
}

/// The write without its session.
pub(crate) fn unbound(write: &Write) -> Write {
    match write {
        Write::Put { key, value, .. } => {
            Write::Put { key: key.clone(), value: value.clone(), session: None }
        }
        Write::Delete { .. } => write.clone(),
    }
}
