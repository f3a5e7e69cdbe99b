//! The state of a store in memory, as a plain value. Every call is a function of the state and the
//! time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use crate::commit::{Commit, Expect, Write};
use crate::error::{CommitError, Conflict, ScanError, SessionError, WatchError};
use crate::key::{Key, StoreRange};
use crate::store::{
    Continuation, Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Versioned,
};
use crate::watch::{Change, ChangeSet};

/// Keys with their history, and sessions.
#[derive(Clone, Debug)]
pub struct MemoryState {
    /// The versions of each key, the oldest first. Never empty.
    entries: BTreeMap<Key, VecDeque<Version>>,
    /// The changes after `compacted`, in order.
    history: VecDeque<ChangeSet>,
    history_max: usize,
    revision: Revision,
    /// The earliest revision that can be read.
    compacted: Revision,
    sessions: BTreeMap<SessionId, Lifetime>,
    last_session: u64,
}

#[derive(Clone, Debug)]
struct Version {
    revision: Revision,
    now: Option<Versioned>,
}

#[derive(Clone, Debug)]
struct Lifetime {
    ttl: Duration,
    deadline: Duration,
    keys: BTreeSet<Key>,
}

impl MemoryState {
    /// An empty store that keeps this many changes.
    #[must_use]
    pub const fn new(history_max: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            history: VecDeque::new(),
            history_max,
            revision: Revision::ZERO,
            compacted: Revision::ZERO,
            sessions: BTreeMap::new(),
            last_session: 0,
        }
    }

    /// The latest revision.
    #[must_use]
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// The earliest revision that can be read.
    #[must_use]
    pub const fn compacted(&self) -> Revision {
        self.compacted
    }

    /// Reads some keys at a revision, or at the earliest that can be read.
    #[must_use]
    pub fn load(&self, keys: &[Key], at: Revision) -> Snapshot {
        let revision = at.clamp(self.compacted, self.revision);
        let values = keys.iter().map(|key| self.at(key, revision).cloned()).collect();
        Snapshot { revision, values }
    }

    /// Reads a page of a range. The first page is read at the given revision, or at the earliest
    /// that can be read.
    pub fn scan(
        &self,
        range: &StoreRange,
        page: &ScanFrom,
        at: Revision,
    ) -> Result<ScanPage, ScanError> {
        let revision = match &page.after {
            None => at.clamp(self.compacted, self.revision),
            Some(next) if (self.compacted..=self.revision).contains(&next.revision) => {
                next.revision
            }
            Some(_) => return Err(ScanError::Moved),
        };
        let start = match &page.after {
            Some(next) if next.after >= *range.start() => Bound::Excluded(&next.after),
            _ => Bound::Included(range.start()),
        };
        if range.is_empty() || range.end().is_some_and(|end| is_after(start, end)) {
            return Ok(ScanPage { revision, entries: Vec::new(), next: None });
        }
        let end = range.end().map_or(Bound::Unbounded, Bound::Excluded);
        let mut found = self
            .entries
            .range::<Key, _>((start, end))
            .filter_map(|(key, versions)| Some((key.clone(), latest(versions, revision)?.clone())));
        let entries: Vec<_> = found.by_ref().take(page.limit.max(1)).collect();
        let more = found.next().is_some();
        let last = entries.last().filter(|_| more);
        let next = last.map(|(key, _)| Continuation { revision, after: key.clone() });
        Ok(ScanPage { revision, entries, next })
    }

    /// Applies a commit.
    pub fn commit(&mut self, commit: &Commit) -> Result<Revision, CommitError> {
        let met = commit.expectations().iter().all(|expectation| {
            let found = self.at(&expectation.key, self.revision).map(|found| found.revision);
            match expectation.expect {
                Expect::Absent => found.is_none(),
                Expect::At(revision) => found == Some(revision),
            }
        });
        if !met {
            let expected = commit.expectations().iter().map(|expectation| &expectation.key);
            let found =
                expected.map(|key| (key.clone(), self.at(key, self.revision).cloned())).collect();
            return Err(CommitError::Conflict(Conflict { found }));
        }
        for write in commit.writes() {
            if let Write::Put { session: Some(session), .. } = write
                && !self.sessions.contains_key(session)
            {
                return Err(CommitError::SessionGone(*session));
            }
        }
        let revision = Revision::new(self.revision.get() + 1);
        let mut changes = Vec::with_capacity(commit.writes().len());
        for write in commit.writes() {
            let now = match write {
                Write::Put { value, session, .. } => {
                    Some(Versioned::new(value.clone(), revision, *session))
                }
                Write::Delete { .. } => None,
            };
            changes.extend(self.put(write.key(), revision, now));
        }
        self.record(ChangeSet { revision, changes });
        Ok(revision)
    }

    /// The changes of a range after one revision, up to another.
    pub fn changes(
        &self,
        range: &StoreRange,
        after: Revision,
        up_to: Revision,
    ) -> Result<Vec<ChangeSet>, WatchError> {
        if after < self.compacted {
            return Err(WatchError::Gap);
        }
        let from = self.history.partition_point(|set| set.revision <= after);
        let sets = self.history.range(from..).take_while(|set| set.revision <= up_to);
        let in_range = sets.filter_map(|set| {
            let changes = set.changes.iter().filter(|change| range.contains(&change.key));
            let changes: Vec<_> = changes.cloned().collect();
            (!changes.is_empty()).then_some(ChangeSet { revision: set.revision, changes })
        });
        Ok(in_range.collect())
    }

    /// Drops the history before a revision.
    pub fn compact(&mut self, before: Revision) {
        let before = before.min(self.revision);
        while self.history.front().is_some_and(|set| set.revision <= before) {
            self.forget_oldest();
        }
        self.compacted = self.compacted.max(before);
    }

    /// Opens a session.
    pub fn open_session(&mut self, ttl: Duration, now: Duration) -> Session {
        self.last_session += 1;
        let id = SessionId::new(self.last_session);
        let deadline = now.saturating_add(ttl);
        self.sessions.insert(id, Lifetime { ttl, deadline, keys: BTreeSet::new() });
        Session { id, ttl }
    }

    /// Restarts the TTL of a session.
    pub fn keep_alive(&mut self, id: SessionId, now: Duration) -> Result<(), SessionError> {
        let session = self.sessions.get_mut(&id).ok_or(SessionError::Gone(id))?;
        session.deadline = now.saturating_add(session.ttl);
        Ok(())
    }

    /// Ends a session and deletes its keys.
    pub fn close_session(&mut self, id: SessionId) -> Result<(), SessionError> {
        let session = self.sessions.remove(&id).ok_or(SessionError::Gone(id))?;
        if session.keys.is_empty() {
            return Ok(());
        }
        let revision = Revision::new(self.revision.get() + 1);
        let mut changes = Vec::with_capacity(session.keys.len());
        for key in &session.keys {
            changes.extend(self.put(key, revision, None));
        }
        self.record(ChangeSet { revision, changes });
        Ok(())
    }

    /// Ends all sessions that had expired at `now`. Returns whether there were any.
    pub fn expire_sessions(&mut self, now: Duration) -> bool {
        let over = self.sessions.iter().filter(|(_, session)| session.deadline <= now);
        let over: Vec<_> = over.map(|(id, _)| *id).collect();
        for id in &over {
            // It existed a moment ago.
            let _ended = self.close_session(*id);
        }
        !over.is_empty()
    }

    /// When the next session expires.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Duration> {
        self.sessions.values().map(|session| session.deadline).min()
    }

    fn at(&self, key: &Key, revision: Revision) -> Option<&Versioned> {
        latest(self.entries.get(key)?, revision)
    }

    /// Writes one key. Deleting a key that does not exist is no change.
    fn put(&mut self, key: &Key, revision: Revision, now: Option<Versioned>) -> Option<Change> {
        let before = self.at(key, self.revision).map(|found| found.session);
        if before.is_none() && now.is_none() {
            return None;
        }
        if let Some(session) = before.flatten().and_then(|id| self.sessions.get_mut(&id)) {
            session.keys.remove(key);
        }
        let session = now.as_ref().and_then(|now| now.session);
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.keys.insert(key.clone());
        }
        let versions = self.entries.entry(key.clone()).or_default();
        versions.push_back(Version { revision, now: now.clone() });
        Some(Change { key: key.clone(), now })
    }

    fn record(&mut self, changes: ChangeSet) {
        self.revision = changes.revision;
        self.history.push_back(changes);
        while self.history.len() > self.history_max {
            self.forget_oldest();
        }
    }

    /// Drops the oldest change.
    fn forget_oldest(&mut self) {
        let Some(oldest) = self.history.pop_front() else { return };
        self.compacted = oldest.revision;
        for change in &oldest.changes {
            let Some(versions) = self.entries.get_mut(&change.key) else { continue };
            let is_old = |version: &Version| version.revision < oldest.revision;
            while versions.front().is_some_and(is_old) {
                versions.pop_front();
            }
            if versions.front().is_some_and(|version| version.now.is_none()) {
                versions.pop_front();
            }
            if versions.is_empty() {
                self.entries.remove(&change.key);
            }
        }
    }
}

fn is_after(start: Bound<&Key>, end: &Key) -> bool {
    matches!(start, Bound::Excluded(start) | Bound::Included(start) if start >= end)
}

fn latest(versions: &VecDeque<Version>, revision: Revision) -> Option<&Versioned> {
    let version = versions.iter().rev().find(|version| version.revision <= revision)?;
    version.now.as_ref()
}
