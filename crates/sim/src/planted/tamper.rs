//! What a bug changes between a process and the store.

use shardwright_store::memory::MemoryStore;
use shardwright_store::{
    Commit, CommitError, Expect, Expectation, Key, Revision, ScanPage, SessionError, Snapshot,
    Write,
};

/// Changes what passes between one process and the store. By default, nothing.
pub(crate) trait Tamper: Send + Sync {
    /// Returns the commit that reaches the store; none if it is swallowed and answered as done.
    fn commit(&self, _store: &MemoryStore, commit: Commit) -> Option<Commit> {
        Some(commit)
    }

    /// Returns what the sender of a commit is answered.
    fn outcome(
        &self,
        _store: &MemoryStore,
        outcome: Result<Revision, CommitError>,
    ) -> Result<Revision, CommitError> {
        outcome
    }

    /// Returns what a load shows.
    fn loaded(&self, _keys: &[Key], snapshot: Snapshot) -> Snapshot {
        snapshot
    }

    /// Returns what a scan shows.
    fn scanned(&self, page: ScanPage) -> ScanPage {
        page
    }

    /// Returns what the keeper of a session is answered.
    fn kept_alive(&self, outcome: Result<(), SessionError>) -> Result<(), SessionError> {
        outcome
    }

    /// Whether a watch that lost a change goes on as if nothing had happened.
    fn swallows_gaps(&self) -> bool {
        false
    }
}

/// Changes nothing.
pub(crate) struct Untouched;

impl Tamper for Untouched {}

/// Builds a commit that compares and writes something else than another.
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
        // A commit has to compare something.
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
