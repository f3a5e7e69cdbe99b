//! The one commit path: load, decide, commit, finish.
//!
//! [`Driver::settle`] sends one commit until its outcome is known. It is the only caller of
//! [`Store::commit`]. Resending a commit is safe, because every commit compares revisions and may
//! arrive late anyway: of all its copies, one at most is applied. A commit that compares only
//! absent keys may be applied again after those keys were deleted; such commits must be harmless
//! to repeat.
//!
//! [`Driver::transact`] repeats a [`Transaction`] until it is stored, answered or refused. It owns
//! back-off, the retry budget, stale decisions and the unresolved attempt: while there is one, a
//! failure is `Unknown`, never `NotApplied`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, InfraError};
use shardwright_store::{
    AnyStore, Commit, CommitBuilder, CommitError, Conflict, Expect, Fault, FaultKind, Key,
    Revision, SessionId, Snapshot, Store, Versioned, Write,
};

use crate::fault;

/// What became of a commit.
#[derive(Clone, Debug)]
pub enum Settled {
    /// It is stored, at this revision.
    Stored(Revision),
    /// An expectation did not hold, and nothing of it is stored.
    Conflict(Conflict),
    /// An attempt had an unknown outcome, and its keys have changed since. The commit will not be
    /// applied any more. Whether it was applied in between is unknown; this is the error to report.
    Overtaken(InfraError),
    /// Nothing is stored, because the session of a put has ended.
    SessionGone(SessionId),
    /// Nothing is stored, because the store has no room left.
    Full(InfraError),
}

impl Settled {
    /// What to report of a commit that was to be stored, and is not.
    pub fn into_failure(self, operation: &'static str) -> InfraError {
        match self {
            Self::Overtaken(error) | Self::Full(error) => error,
            Self::SessionGone(ended) => {
                let message = format!("session {ended} has ended").into();
                InfraError::NotApplied { operation, message }
            }
            Self::Stored(_) | Self::Conflict(_) => fault::contention(operation),
        }
    }
}

/// How often a commit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// Once. An unknown outcome is an error.
    Once,
    /// Until its outcome is known, up to the retry budget.
    UntilKnown,
}

/// What a transaction is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// What this process remembers. A refusal is decided again on a fresh read.
    Cached,
    /// What the store holds.
    Fresh,
}

/// What a transaction decided.
pub enum Decision<A, E> {
    /// There is nothing to store.
    Answer(A),
    /// This is to be stored, and the answer is returned once it is.
    Commit(CommitBuilder, A),
    /// The protocol rejects it.
    Refuse(E),
    /// What was read does not fit together: read again.
    Reload,
}

/// Something that reads, decides and writes, as often as it takes.
pub trait Transaction: Send {
    /// What was read, with the revisions that the commit compares.
    type Basis: Send + Sync;
    /// What was decided.
    type Answer: Send;
    /// What the caller gets.
    type Output: Send;
    /// A refusal, or a failure of the store.
    type Error: From<InfraError> + Send;

    /// The name of the operation, for errors.
    fn operation(&self) -> &'static str;

    /// What to read first.
    fn first_read(&self) -> Read {
        Read::Fresh
    }

    /// Reads what to decide on, and returns how it was read: fresh, where nothing is cached.
    fn load(
        &mut self,
        read: Read,
    ) -> impl Future<Output = Result<(Self::Basis, Read), InfraError>> + Send;

    /// Applies the rules of the protocol.
    fn decide(
        &mut self,
        basis: &Self::Basis,
    ) -> impl Future<Output = Decided<Self::Answer, Self::Error>> + Send;

    /// Stores what was decided.
    fn commit(
        &mut self,
        driver: &Driver,
        commit: &Commit,
    ) -> impl Future<Output = Result<Settled, InfraError>> + Send {
        driver.settle(self.operation(), commit, Tries::UntilKnown)
    }

    /// Takes note that an attempt was not stored, or was overtaken. It is decided again.
    fn not_stored(&mut self, _answer: Self::Answer, _settled: &Settled) {}

    /// The failure to report, given what earlier steps of the transaction have stored.
    fn failed(&self, error: InfraError) -> InfraError {
        error
    }

    /// Updates caches and views, publishes events, and returns the output.
    fn finish(
        &mut self,
        basis: Self::Basis,
        answer: Self::Answer,
        stored: Option<(&Commit, Revision)>,
    ) -> Self::Output;
}

/// A decision, or why none could be made.
pub type Decided<A, E> = Result<Decision<A, E>, InfraError>;

/// Drives transactions on a store.
#[derive(Clone)]
pub struct Driver {
    store: AnyStore,
    /// Retries pause in it. Without one they follow each other at once.
    env: Option<Arc<dyn Env>>,
    retries: u32,
    /// How many reads may fail before an unknown outcome stays unknown.
    failed_looks_max: u32,
}

/// What a store answered to a commit.
enum Sent {
    Settled(Settled),
    Unknown(InfraError),
    Failed(InfraError),
}

/// What the keys of a commit with an unknown outcome show.
enum Seen {
    Stored(Revision),
    Overtaken,
    Undecided,
}

impl Driver {
    /// A driver that repeats up to `retries` times. Without an environment it does not back off.
    pub const fn new(store: AnyStore, env: Option<Arc<dyn Env>>, retries: u32) -> Self {
        Self { store, env, retries, failed_looks_max: 0 }
    }

    /// The same driver, that goes on while the store cannot be read.
    pub fn patient(self) -> Self {
        Self { failed_looks_max: self.retries, ..self }
    }

    /// Repeats a transaction until it is stored, answered or refused.
    ///
    /// Retry loop: another process may change the basis before each commit.
    pub async fn transact<T: Transaction>(
        &self,
        transaction: &mut T,
    ) -> Result<T::Output, T::Error> {
        let mut unresolved = None;
        let (mut read, mut tries) = (transaction.first_read(), 0);
        loop {
            self.back_off(tries).await;
            let failure = |transaction: &T, unresolved: &Option<InfraError>, error| {
                unresolved.clone().unwrap_or_else(|| transaction.failed(error))
            };
            let loaded = transaction.load(read).await;
            let (basis, was_read) =
                loaded.map_err(|error| failure(transaction, &unresolved, error))?;
            let decided = transaction.decide(&basis).await;
            match decided.map_err(|error| failure(transaction, &unresolved, error))? {
                Decision::Answer(answer) => return Ok(transaction.finish(basis, answer, None)),
                Decision::Refuse(_) if was_read == Read::Cached => {
                    // Costs no retry: nobody was faster, this process was behind.
                    read = Read::Fresh;
                    continue;
                }
                Decision::Refuse(refusal) => return Err(refusal),
                Decision::Reload => {}
                Decision::Commit(commit, answer) => {
                    let operation = transaction.operation();
                    let commit = build(operation, commit)?;
                    let settled = transaction.commit(self, &commit).await;
                    match settled.map_err(|error| failure(transaction, &unresolved, error))? {
                        Settled::Stored(revision) => {
                            let stored = Some((&commit, revision));
                            return Ok(transaction.finish(basis, answer, stored));
                        }
                        Settled::Full(error) => {
                            return Err(failure(transaction, &unresolved, error).into());
                        }
                        settled => {
                            if let Settled::Overtaken(error) = &settled {
                                unresolved = Some(error.clone());
                            }
                            transaction.not_stored(answer, &settled);
                        }
                    }
                }
            }
            (read, tries) = (Read::Fresh, tries + 1);
            if tries > self.retries {
                let contention = fault::contention(transaction.operation());
                return Err(failure(transaction, &unresolved, contention).into());
            }
        }
    }

    /// Sends a commit until its outcome is known. An unknown outcome is looked up; while it may
    /// still be applied, the same commit is sent again.
    ///
    /// Retry loop: an answer may get lost each time.
    pub async fn settle(
        &self,
        operation: &'static str,
        commit: &Commit,
        tries: Tries,
    ) -> Result<Settled, InfraError> {
        let mut unknown = None;
        let mut failed_looks = 0;
        for sent in 0..=self.retries {
            self.back_off(sent).await;
            let answer = self.send(operation, commit).await;
            let conflict = match (answer, &unknown) {
                (Sent::Unknown(error), _) if tries == Tries::Once => return Err(error),
                (Sent::Unknown(error), _) => {
                    unknown = Some(error);
                    None
                }
                (Sent::Failed(error), None) => return Err(error),
                (Sent::Settled(settled @ Settled::Stored(_)), _) => return Ok(settled),
                (Sent::Settled(settled), None) => return Ok(settled),
                // What belongs to the session is gone, even if it was there for a moment.
                (Sent::Settled(settled @ Settled::SessionGone(_)), Some(_)) if is_bound(commit) => {
                    return Ok(settled);
                }
                (Sent::Settled(Settled::Conflict(conflict)), Some(_)) => Some(conflict),
                (Sent::Settled(Settled::SessionGone(_)), Some(_)) => None,
                // It was not applied now, but may have been before.
                (Sent::Failed(_) | Sent::Settled(_), Some(error)) => return Err(error.clone()),
            };
            let Some(error) = &unknown else { continue };
            match self.look(commit, conflict.as_ref()).await {
                Some(Seen::Stored(revision)) => return Ok(Settled::Stored(revision)),
                Some(Seen::Overtaken) => return Ok(Settled::Overtaken(error.clone())),
                Some(Seen::Undecided) => {}
                None => {
                    failed_looks += 1;
                    if failed_looks > self.failed_looks_max {
                        return Err(error.clone());
                    }
                }
            }
        }
        Err(unknown.unwrap_or_else(|| fault::contention(operation)))
    }

    /// Reads until what is found is not older than the reader knows it to be.
    ///
    /// Retry loop: a store may serve a stale read.
    pub async fn read_until<T, F>(
        &self,
        operation: &'static str,
        mut read: impl FnMut() -> F + Send,
    ) -> Result<T, InfraError>
    where
        F: Future<Output = Result<Option<T>, InfraError>> + Send,
    {
        for stale_reads in 0..=self.retries {
            self.back_off(stale_reads).await;
            if let Some(found) = read().await? {
                return Ok(found);
            }
        }
        Err(fault::contention(operation))
    }

    /// Pauses before a retry: longer each time, and not as long as others do.
    pub async fn back_off(&self, times: u32) {
        if let Some(env) = &self.env
            && times > 1
        {
            let most = 1_u64 << times.min(8);
            env.sleep(Duration::from_millis(1 + env.random() % most)).await;
        }
    }

    async fn send(&self, operation: &'static str, commit: &Commit) -> Sent {
        let error = match self.store.commit(commit.clone()).await {
            Ok(revision) => return Sent::Settled(Settled::Stored(revision)),
            Err(error) => error,
        };
        let failure = fault::commit(operation, &error);
        match error {
            CommitError::Conflict(conflict) => Sent::Settled(Settled::Conflict(conflict)),
            CommitError::SessionGone(ended) => Sent::Settled(Settled::SessionGone(ended)),
            CommitError::NotApplied(Fault { kind: FaultKind::Full, .. }) => {
                Sent::Settled(Settled::Full(failure))
            }
            CommitError::Unknown(_) => Sent::Unknown(failure),
            CommitError::NotApplied(_) | CommitError::TooLarge(_) | CommitError::Corrupt(_) => {
                Sent::Failed(failure)
            }
        }
    }

    /// Whether a commit was stored, or cannot be any more; none if the store cannot be read.
    async fn look(&self, commit: &Commit, conflict: Option<&Conflict>) -> Option<Seen> {
        let keys: Vec<Key> = commit.writes().iter().map(|write| write.key().clone()).collect();
        let snapshot = self.store.load(&keys).await.ok()?;
        let found = conflict.into_iter().flat_map(|conflict| &conflict.found);
        let newest = found.filter_map(|(_, found)| Some(found.as_ref()?.revision)).max();
        let is_stale = newest.is_some_and(|newest| newest > snapshot.revision);
        Some(match judge(commit, &snapshot) {
            Seen::Overtaken if is_stale => Seen::Undecided,
            Seen::Undecided if !is_stale && conflict.is_some_and(|it| is_final(commit, it)) => {
                Seen::Overtaken
            }
            seen => seen,
        })
    }
}

/// Builds a commit. A shape that no store takes is a bug of the caller, not the user's.
pub fn build(operation: &'static str, commit: CommitBuilder) -> Result<Commit, InfraError> {
    commit.build().map_err(|error| fault::corrupt(operation, error.to_string()))
}

/// Whether all that a commit puts goes with a session.
fn is_bound(commit: &Commit) -> bool {
    commit.writes().iter().all(|write| matches!(write, Write::Put { session: Some(_), .. }))
}

/// Whether a conflict shows that the commit cannot be applied any more. A key that was written
/// never has an earlier revision again.
fn is_final(commit: &Commit, conflict: &Conflict) -> bool {
    let found: BTreeMap<&Key, Option<Revision>> = conflict
        .found
        .iter()
        .map(|(key, found)| (key, found.as_ref().map(|found| found.revision)))
        .collect();
    commit.expectations().iter().any(|expected| match (expected.expect, found.get(&expected.key)) {
        (Expect::At(at), Some(found)) => *found != Some(at),
        _ => false,
    })
}

fn judge(commit: &Commit, snapshot: &Snapshot) -> Seen {
    let expected: BTreeMap<&Key, Expect> =
        commit.expectations().iter().map(|expected| (&expected.key, expected.expect)).collect();
    // Whether a key has changed since the commit was decided, where the commit compares it.
    let has_changed = |write: &Write, found: &Option<Versioned>| match expected.get(write.key())? {
        Expect::Absent => Some(found.is_some()),
        // A key never has an earlier revision again; what was read may be older than that.
        Expect::At(at) => {
            let read_at = found.as_ref().map_or(snapshot.revision, |found| found.revision);
            Some(read_at > *at)
        }
    };
    let found = || commit.writes().iter().zip(&snapshot.values);
    // A value that equals the one before says nothing until it has changed.
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
