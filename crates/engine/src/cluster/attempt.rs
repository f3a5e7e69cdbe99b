//! Committing something, and finding out what became of it.

use std::collections::BTreeMap;

use shardwright_coordination::InfraError;
use shardwright_store::{
    Commit, CommitBuilder, CommitError, Expect, Key, Revision, Snapshot, Store, Versioned, Write,
};

use super::core::Core;
use super::state::News;
use crate::fault;
use crate::operate::back_off;

/// What came of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// It is stored, at this moment.
    Stored(Revision),
    /// Something it was based on has changed, and nothing of it is stored.
    Conflict,
    /// After an attempt whose outcome was not known, something else is there. Nothing of it will be
    /// stored any more; whether it was in between, nobody can tell.
    Overtaken,
    /// The session that it belongs to has ended.
    SessionGone,
}

/// What a look at the keys tells of a commit whose outcome is not known.
enum Seen {
    Stored(Revision),
    Overtaken,
    Undecided,
}

impl Core {
    /// Stores something, and takes note of it. An outcome that is not known is found out by
    /// looking; as long as it may still come, the same is sent again, which cannot do it twice.
    pub(super) async fn commit(
        &self,
        operation: &'static str,
        commit: CommitBuilder,
    ) -> Result<Tried, InfraError> {
        let commit =
            commit.build().map_err(|error| fault::corrupt(operation, error.to_string()))?;
        let mut unknown = None;
        for tries in 0..=self.options.conflict_retries {
            back_off(&self.env, tries).await;
            match self.store.commit(commit.clone()).await {
                Ok(revision) => {
                    self.note(&commit, revision);
                    return Ok(Tried::Stored(revision));
                }
                Err(CommitError::Conflict(_)) if unknown.is_none() => return Ok(Tried::Conflict),
                // What belongs to the session is gone, even if it was there for a moment.
                Err(CommitError::SessionGone(_)) => return Ok(Tried::SessionGone),
                Err(CommitError::Conflict(_)) => {}
                Err(error @ CommitError::Unknown(_)) => {
                    unknown = Some(fault::commit(operation, &error));
                }
                Err(error) => {
                    return Err(unknown.unwrap_or_else(|| fault::commit(operation, &error)));
                }
            }
            match self.look(&commit).await {
                Seen::Stored(revision) => {
                    self.note(&commit, revision);
                    return Ok(Tried::Stored(revision));
                }
                Seen::Overtaken => return Ok(Tried::Overtaken),
                Seen::Undecided => {}
            }
        }
        Err(unknown.unwrap_or_else(|| fault::contention(operation)))
    }

    /// Whether a commit was stored, or can not be any more.
    async fn look(&self, commit: &Commit) -> Seen {
        let keys: Vec<Key> = commit.writes().iter().map(|write| write.key().clone()).collect();
        match self.store.load(&keys).await {
            Ok(snapshot) => judge(commit, &snapshot),
            // A store that does not answer is asked again.
            Err(_) => Seen::Undecided,
        }
    }

    /// Takes note of what was just stored.
    fn note(&self, commit: &Commit, revision: Revision) {
        let news = commit.writes().iter().filter_map(|write| {
            let key = self.keys.parse(write.key())?;
            let value = match write {
                Write::Put { value, .. } => Some((value.clone(), revision)),
                Write::Delete { .. } => None,
            };
            Some(News { key, value })
        });
        let news = news.collect();
        self.learn(news, revision);
    }
}

fn judge(commit: &Commit, snapshot: &Snapshot) -> Seen {
    let expected: BTreeMap<&Key, Expect> =
        commit.expectations().iter().map(|expected| (&expected.key, expected.expect)).collect();
    // Whether something came after what the commit is based on, where it is based on anything.
    let has_changed = |write: &Write, found: &Option<Versioned>| match expected.get(write.key())? {
        Expect::Absent => Some(found.is_some()),
        // A key never has an earlier revision again; what was read may be older than that.
        Expect::At(at) => {
            let read_at = found.as_ref().map_or(snapshot.revision, |found| found.revision);
            Some(read_at > *at)
        }
    };
    let found = || commit.writes().iter().zip(&snapshot.values);
    // What is written as it was says nothing before it has changed.
    let is_ours = found().all(|(write, found)| {
        is_written(write, found.as_ref()) && has_changed(write, found) != Some(false)
    });
    if is_ours {
        let written = snapshot.values.iter().flatten().map(|found| found.revision).max();
        return Seen::Stored(written.unwrap_or(snapshot.revision));
    }
    if found().any(|(write, found)| has_changed(write, found) == Some(true)) {
        Seen::Overtaken
    } else {
        Seen::Undecided
    }
}

fn is_written(write: &Write, found: Option<&Versioned>) -> bool {
    match (write, found) {
        (Write::Put { value, session, .. }, Some(found)) => {
            found.value == *value && found.session == *session
        }
        (Write::Delete { .. }, None) => true,
        (Write::Put { .. }, None) | (Write::Delete { .. }, Some(_)) => false,
    }
}
