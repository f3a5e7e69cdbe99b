//! The one commit path: load, decide, commit, finish.
//!
//! [`Driver::settle`] sends one commit until its outcome is known. It is the only caller of
//! [`Store::commit`]. Resending is safe because every commit compares revisions: at most one of its
//! copies is applied. An exception is a commit that compares only absent keys. It may be applied
//! again after those keys were deleted, so such a commit must be harmless to repeat.
//!
//! [`Driver::transact`] repeats a [`Transaction`] until it is stored, answered or refused. It owns
//! back-off, the retry budget, stale decisions and unresolved attempts. While an attempt is
//! unresolved, a failure is `Unknown`, never `NotApplied`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use shardwright_contracts::{Env, InfraError};
use shardwright_store::{
    AnyStore, Commit, CommitBuilder, CommitError, Conflict, Expect, Fault, FaultKind, Key,
    Revision, SessionId, Snapshot, Store, Versioned, Write,
};

use crate::Operation;
use crate::fault;

/// Outcome of a commit.
#[derive(Clone, Debug)]
pub enum Settled {
    /// It is stored, at this revision.
    Stored(Revision),
    /// An expectation did not hold. Nothing of the commit is stored.
    Conflict(Conflict),
    /// An attempt had an unknown outcome. Its keys have changed since, or its session has ended, so
    /// the commit can no longer be applied. Whether it was applied in between is unknown. The error
    /// is the one to report.
    ///
    /// A transaction with an operation id decides again. If the commit was applied, it finds the id
    /// in the op log and answers `Replayed`, with the same result as `Executed`.
    Overtaken(InfraError),
    /// The session of a put has ended. Nothing is stored.
    SessionGone(SessionId),
    /// The store is full. Nothing is stored.
    Full(InfraError),
}

impl Settled {
    /// Returns the error to report for a commit that had to be stored and is not.
    pub fn into_failure(self, operation: Operation) -> InfraError {
        match self {
            Self::Overtaken(error) | Self::Full(error) => error,
            Self::SessionGone(ended) => {
                let message = format!("session {ended} has ended").into();
                InfraError::NotApplied { operation: operation.commit, message }
            }
            Self::Stored(_) | Self::Conflict(_) => fault::contention(operation),
        }
    }
}

/// Number of times that a commit is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tries {
    /// Once. An unknown outcome is an error.
    Once,
    /// Until its outcome is known, up to the retry budget.
    UntilKnown,
}

/// Source of the data that a transaction decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The process's cache. A refusal is decided again on a fresh read.
    Cached,
    /// The store.
    Fresh,
}

/// Decision of a transaction.
pub enum Decision<A, E> {
    /// Nothing needs to be stored.
    Answer(A),
    /// Store this commit, then return the answer.
    Commit(CommitBuilder, A),
    /// The protocol rejects the operation.
    Refuse(E),
    /// The reads are inconsistent: load again.
    Reload,
}

/// A read, a decision and a commit, repeated until the outcome is known.
pub trait Transaction: Send {
    /// The data read, with the revisions that the commit compares.
    type Basis: Send + Sync;
    /// The decision's result, before it is stored.
    type Answer: Send;
    /// The caller's result.
    type Output: Send;
    /// A refusal, or a failure of the store.
    type Error: From<InfraError> + Send;

    /// Names of the operation's steps, for errors.
    fn operation(&self) -> Operation;

    /// Where the first attempt reads.
    fn first_read(&self) -> Read {
        Read::Fresh
    }

    /// Reads the basis of the decision, and returns whether the read was fresh. It is fresh if
    /// nothing is cached.
    fn load(
        &mut self,
        read: Read,
    ) -> impl Future<Output = Result<(Self::Basis, Read), InfraError>> + Send;

    /// Applies the rules of the protocol.
    fn decide(
        &mut self,
        basis: &Self::Basis,
    ) -> impl Future<Output = Decided<Self::Answer, Self::Error>> + Send;

    /// Stores the decision.
    fn commit(
        &mut self,
        driver: &Driver,
        commit: &Commit,
    ) -> impl Future<Output = Result<Settled, InfraError>> + Send {
        driver.settle(self.operation(), commit, Tries::UntilKnown)
    }

    /// Called when an attempt was not stored, or was overtaken. The transaction is decided again.
    fn not_stored(&mut self, _answer: Self::Answer, _settled: &Settled) {}

    /// Returns the error to report, given what earlier steps of the transaction have stored.
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

/// A decision, or the failure that prevented one.
pub type Decided<A, E> = Result<Decision<A, E>, InfraError>;

/// Refuses an operation, unless an attempt is unresolved: it may have been applied, and the refusal
/// may be its effect.
pub fn refuse<A, E>(refusal: E, unresolved: Option<&InfraError>) -> Decided<A, E> {
    match unresolved {
        Some(error) => Err(error.clone()),
        None => Ok(Decision::Refuse(refusal)),
    }
}

/// Drives transactions on a store.
#[derive(Clone)]
pub struct Driver {
    store: AnyStore,
    /// Environment for pauses between retries. Without one, retries follow at once.
    env: Option<Arc<dyn Env>>,
    retries: u32,
    /// Number of reads that may fail before an unknown outcome is reported as unknown.
    failed_reads_max: u32,
}

/// Answer of a store to a commit.
enum Sent {
    Settled(Settled),
    Unknown(InfraError),
    Failed(InfraError),
}

/// What the keys of a commit with an unknown outcome show.
enum Evidence {
    Stored(Revision),
    Overtaken,
    Undecided,
}

impl Driver {
    /// A driver that repeats up to `retries` times. Without an environment it does not back off.
    pub const fn new(store: AnyStore, env: Option<Arc<dyn Env>>, retries: u32) -> Self {
        Self { store, env, retries, failed_reads_max: 0 }
    }

    /// A driver that repeats a read for as long as it is waited for. The read has its own pauses.
    pub const fn waiting(store: AnyStore) -> Self {
        Self::new(store, None, u32::MAX)
    }

    /// Makes the driver retry while the store cannot be read.
    pub fn retrying_reads(self) -> Self {
        Self { failed_reads_max: self.retries, ..self }
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
                    // Costs no retry: the cache was stale, and no other process interfered.
                    read = Read::Fresh;
                    continue;
                }
                Decision::Refuse(refusal) => return Err(refusal),
                Decision::Reload => {}
                Decision::Commit(commit, answer) => {
                    let commit = build(transaction.operation(), commit)
                        .map_err(|error| failure(transaction, &unresolved, error))?;
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

    /// Sends a commit until its outcome is known. After an unknown outcome it reads the keys. While
    /// the commit may still be applied, it sends the same commit again.
    ///
    /// Retry loop: each answer may be lost.
    pub async fn settle(
        &self,
        operation: Operation,
        commit: &Commit,
        tries: Tries,
    ) -> Result<Settled, InfraError> {
        let mut unknown = None;
        let mut failed_reads = 0;
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
                // All writes belong to the ended session. They are deleted, even if they were
                // stored.
                (Sent::Settled(settled @ Settled::SessionGone(_)), Some(_)) if is_bound(commit) => {
                    return Ok(settled);
                }
                // No store applies a put of an ended session, so no copy can be applied any more.
                (Sent::Settled(Settled::SessionGone(_)), Some(error)) => {
                    return Ok(Settled::Overtaken(error.clone()));
                }
                (Sent::Settled(Settled::Conflict(conflict)), Some(_)) => Some(conflict),
                // This attempt was not applied, but an earlier one may have been.
                (Sent::Failed(_) | Sent::Settled(_), Some(error)) => return Err(error.clone()),
            };
            let Some(error) = &unknown else { continue };
            match self.read_back(commit, conflict.as_ref()).await {
                Some(Evidence::Stored(revision)) => return Ok(Settled::Stored(revision)),
                Some(Evidence::Overtaken) => return Ok(Settled::Overtaken(error.clone())),
                Some(Evidence::Undecided) => {}
                None => {
                    failed_reads += 1;
                    if failed_reads > self.failed_reads_max {
                        return Err(error.clone());
                    }
                }
            }
        }
        Err(unknown.unwrap_or_else(|| fault::contention(operation)))
    }

    /// Repeats a read until `read` accepts it. The argument of `read` counts the earlier reads.
    ///
    /// Retry loop: a store may serve a stale read, or drop a revision while it is listed.
    pub async fn read_until<T, F>(
        &self,
        operation: Operation,
        mut read: impl FnMut(u32) -> F + Send,
    ) -> Result<T, InfraError>
    where
        F: Future<Output = Result<Option<T>, InfraError>> + Send,
    {
        for stale_reads in 0..=self.retries {
            self.back_off(stale_reads).await;
            if let Some(found) = read(stale_reads).await? {
                return Ok(found);
            }
        }
        Err(fault::contention(operation))
    }

    /// The store.
    pub(crate) const fn store(&self) -> &AnyStore {
        &self.store
    }

    /// Pauses before a retry, longer each time and with jitter.
    async fn back_off(&self, times: u32) {
        if let Some(env) = &self.env
            && times > 1
        {
            let most = 1_u64 << times.min(8);
            env.sleep(Duration::from_millis(1 + env.random() % most)).await;
        }
    }

    async fn send(&self, operation: Operation, commit: &Commit) -> Sent {
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

    /// Reads the keys of a commit with an unknown outcome; none if the store cannot be read.
    async fn read_back(&self, commit: &Commit, conflict: Option<&Conflict>) -> Option<Evidence> {
        let keys: Vec<Key> = commit.writes().iter().map(|write| write.key().clone()).collect();
        let snapshot = self.store.load(&keys).await.ok()?;
        let found = conflict.into_iter().flat_map(|conflict| &conflict.found);
        let newest = found.filter_map(|(_, found)| Some(found.as_ref()?.revision)).max();
        let is_stale = newest.is_some_and(|newest| newest > snapshot.revision);
        Some(match judge(commit, &snapshot) {
            Evidence::Overtaken if is_stale => Evidence::Undecided,
            Evidence::Undecided if !is_stale && conflict.is_some_and(|it| is_final(commit, it)) => {
                Evidence::Overtaken
            }
            evidence => evidence,
        })
    }
}

/// Builds a commit. A commit that no store accepts is a bug of the caller.
pub fn build(operation: Operation, commit: CommitBuilder) -> Result<Commit, InfraError> {
    let corrupt = |message| InfraError::Corrupt { operation: operation.commit, message };
    commit.build().map_err(|error| corrupt(error.to_string().into()))
}

/// Whether every write of a commit belongs to a session.
fn is_bound(commit: &Commit) -> bool {
    commit.writes().iter().all(|write| matches!(write, Write::Put { session: Some(_), .. }))
}

/// Whether a conflict shows that the commit can no longer be applied. A written key never returns
/// to an earlier revision.
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

/// Judges by its keys whether a commit was applied.
///
/// It was applied if every key holds what the commit writes, all at one revision. One such key
/// proves nothing, because another commit may write the same value:
///
/// - Two runs that each reserve a block of shards write the same total.
/// - Two processes that acquire a shard for one worker at the same time write the same progress.
///   Only the session of the owner binding differs.
///
/// So a split counts as overtaken if a child was claimed before the answer arrived, although it was
/// applied. The caller gets `Replayed` from the op log instead of `Executed`.
fn judge(commit: &Commit, snapshot: &Snapshot) -> Evidence {
    let expected: BTreeMap<&Key, Expect> =
        commit.expectations().iter().map(|expected| (&expected.key, expected.expect)).collect();
    // Whether a key has changed since the commit was decided; none if the commit does not compare
    // it.
    let has_changed = |write: &Write, found: &Option<Versioned>| match expected.get(write.key())? {
        Expect::Absent => Some(found.is_some()),
        // A key never returns to an earlier revision, but the read may be older.
        Expect::At(at) => {
            let read_at = found.as_ref().map_or(snapshot.revision, |found| found.revision);
            Some(read_at > *at)
        }
    };
    let found = || commit.writes().iter().zip(&snapshot.values);
    // A value that equals the previous one proves nothing until its revision changes.
    let is_ours = found().all(|(write, found)| {
        is_written(write, found.as_ref()) && has_changed(write, found) != Some(false)
    });
    let revisions = || snapshot.values.iter().flatten().map(|found| found.revision);
    let stored_at = revisions().next().unwrap_or(snapshot.revision);
    if is_ours && revisions().all(|revision| revision == stored_at) {
        return Evidence::Stored(stored_at);
    }
    if found().any(|(write, found)| has_changed(write, found) == Some(true)) {
        Evidence::Overtaken
    } else {
        Evidence::Undecided
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

#[cfg(test)]
mod tests {
    use shardwright_store::MachineClock;
    use shardwright_store::memory::MemoryStore;

    use super::*;
    use crate::operation;

    /// A transaction whose first commit is overtaken, and whose second cannot be built.
    #[derive(Default)]
    struct Overtaken(bool);

    impl Transaction for Overtaken {
        type Basis = ();
        type Answer = ();
        type Output = ();
        type Error = InfraError;

        fn operation(&self) -> Operation {
            operation!("test")
        }

        async fn load(&mut self, read: Read) -> Result<((), Read), InfraError> {
            Ok(((), read))
        }

        async fn decide(&mut self, (): &()) -> Decided<(), InfraError> {
            let commit = Commit::builder().put("key".into(), "value");
            let is_valid = !self.0;
            let commit =
                if is_valid { commit.expect("key".into(), Expect::Absent) } else { commit };
            Ok(Decision::Commit(commit, ()))
        }

        async fn commit(&mut self, _: &Driver, _: &Commit) -> Result<Settled, InfraError> {
            self.0 = true;
            let (operation, message) = ("test.commit", "the answer was lost".into());
            Ok(Settled::Overtaken(InfraError::Unknown { operation, message }))
        }

        fn finish(&mut self, (): (), (): (), _: Option<(&Commit, Revision)>) {}
    }

    #[tokio::test]
    async fn commit_that_cannot_be_built_leaves_an_attempt_unknown() {
        let store = MemoryStore::new(Arc::new(MachineClock));
        let driver = Driver::new(AnyStore::new(store), None, 1);
        let failed = driver.transact(&mut Overtaken::default()).await;
        assert!(matches!(failed, Err(InfraError::Unknown { .. })), "{failed:?}");
    }

    /// A commit that writes a record and a counter, which other commits write as well.
    fn commit() -> Commit {
        let at = |revision| Expect::At(Revision::new(revision));
        let commit = Commit::builder()
            .expect("progress".into(), at(5))
            .expect("total".into(), at(6))
            .put("progress".into(), "split")
            .put("total".into(), "128")
            .put("child".into(), "unclaimed");
        commit.build().unwrap()
    }

    /// The evidence of the three keys, each with its value and revision.
    fn judged(found: [(&'static str, u64); 3]) -> Evidence {
        let entry = |(value, revision): (&'static str, u64)| {
            Some(Versioned::new(value.into(), Revision::new(revision), None))
        };
        let values = found.map(entry).into();
        judge(&commit(), &Snapshot { values, revision: Revision::new(20) })
    }

    #[test]
    fn commit_is_stored_if_all_its_keys_hold_its_writes() {
        let evidence = judged([("split", 9), ("128", 9), ("unclaimed", 9)]);
        assert!(matches!(evidence, Evidence::Stored(at) if at == Revision::new(9)));
    }

    #[test]
    fn equal_value_of_another_commit_is_no_evidence() {
        let evidence = judged([("active", 5), ("128", 9), ("unclaimed", 9)]);
        assert!(matches!(evidence, Evidence::Overtaken));
    }

    #[test]
    fn equal_values_of_several_commits_are_no_evidence() {
        let evidence = judged([("split", 9), ("128", 8), ("unclaimed", 9)]);
        assert!(matches!(evidence, Evidence::Overtaken));
    }

    #[test]
    fn commit_with_a_rewritten_key_is_overtaken() {
        let evidence = judged([("split", 9), ("128", 9), ("claimed", 10)]);
        assert!(matches!(evidence, Evidence::Overtaken));
    }

    #[test]
    fn commit_with_unchanged_keys_is_undecided() {
        let evidence = judged([("active", 5), ("64", 6), ("", 4)]);
        assert!(matches!(evidence, Evidence::Undecided));
    }
}
