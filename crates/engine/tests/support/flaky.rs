//! A store with scripted faults.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardwright_store::{
    Changes, Commit, CommitError, Fault, FaultKind, Key, Revision, ScanError, ScanFrom, ScanPage,
    Session, SessionError, SessionId, Snapshot, Store, StoreError, StoreLimits, StoreRange,
    WatchError, Write,
};

/// Reaction of the store to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Applies it.
    Apply,
    /// Refuses it.
    Refuse,
    /// Refuses it if it puts anything: the store is full and accepts deletes only.
    RefusePuts,
    /// Reports a damaged store.
    Corrupt,
    /// Applies it, and loses the answer.
    LoseAnswer,
    /// Delays it with an unknown outcome. [`FlakyStore::deliver_late`] applies it.
    Late,
    /// Never answers, and does not apply it.
    HangBefore,
    /// Never answers, but applies it.
    HangAfter,
}

#[derive(Default)]
struct Script {
    reactions: VecDeque<Reaction>,
    /// Reaction to commits after the script.
    afterwards: Option<Reaction>,
    late: Vec<Commit>,
    refuse_reads: bool,
    refuse_scans: bool,
    /// Reaction to keep-alive requests.
    keep_alives: Option<Reaction>,
    commits: usize,
    limits: Option<StoreLimits>,
}

type Hook = Box<dyn FnMut() + Send>;

/// A client of a store with a script. Clones share it.
#[derive(Clone)]
pub(crate) struct FlakyStore<S> {
    store: S,
    script: Arc<Mutex<Script>>,
    /// Called when a commit is delayed, hangs, or its answer is lost.
    hook: Arc<Mutex<Option<Hook>>>,
}

impl<S: Store> FlakyStore<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store, script: Arc::default(), hook: Arc::default() }
    }

    pub(crate) fn with_limits(store: S, limits: StoreLimits) -> Self {
        let flaky = Self::new(store);
        flaky.script.lock().unwrap().limits = Some(limits);
        flaky
    }

    /// Scripts the reactions to the next commits. Later ones are applied.
    pub(crate) fn next(&self, reactions: impl IntoIterator<Item = Reaction>) {
        let mut script = self.script.lock().unwrap();
        script.reactions = reactions.into_iter().collect();
        script.afterwards = None;
    }

    /// Applies the next `skip` commits, and reacts to all later ones in one way.
    pub(crate) fn always_after(&self, skip: usize, reaction: Reaction) {
        let mut script = self.script.lock().unwrap();
        script.reactions = std::iter::repeat_n(Reaction::Apply, skip).collect();
        script.afterwards = Some(reaction);
    }

    /// Scripts the reactions to the next commits, and to all later ones.
    pub(crate) fn script(
        &self,
        reactions: impl IntoIterator<Item = Reaction>,
        afterwards: Reaction,
    ) {
        let mut script = self.script.lock().unwrap();
        script.reactions = reactions.into_iter().collect();
        script.afterwards = Some(afterwards);
    }

    pub(crate) fn refuse_reads(&self, refuse: bool) {
        self.script.lock().unwrap().refuse_reads = refuse;
    }

    /// Refuses scans, but not loads.
    pub(crate) fn refuse_scans(&self, refuse: bool) {
        self.script.lock().unwrap().refuse_scans = refuse;
    }

    /// Sets the reaction to keep-alive requests: apply, refuse or never answer.
    pub(crate) fn keep_alives(&self, reaction: Reaction) {
        self.script.lock().unwrap().keep_alives = Some(reaction);
    }

    /// Runs a hook once, when the next commit is delayed, hangs, or loses its answer.
    pub(crate) fn on_fault(&self, hook: impl FnMut() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// Number of commits so far.
    pub(crate) fn commits(&self) -> usize {
        self.script.lock().unwrap().commits
    }

    /// Delivers the delayed commits, and returns how many were applied.
    pub(crate) async fn deliver_late(&self) -> usize {
        let late = std::mem::take(&mut self.script.lock().unwrap().late);
        let mut applied = 0;
        for commit in late {
            applied += usize::from(self.store.commit(commit).await.is_ok());
        }
        applied
    }

    fn next_reaction(&self) -> Reaction {
        let mut script = self.script.lock().unwrap();
        script.commits += 1;
        script.reactions.pop_front().or(script.afterwards).unwrap_or(Reaction::Apply)
    }

    fn run_hook(&self) {
        let hook = self.hook.lock().unwrap().take();
        hook.into_iter().for_each(|mut hook| hook());
    }

    fn check_read(&self) -> Result<(), StoreError> {
        match self.script.lock().unwrap().refuse_reads {
            true => Err(StoreError::Unavailable(fault())),
            false => Ok(()),
        }
    }
}

fn fault() -> Fault {
    Fault::new(FaultKind::Full, "scripted by the test")
}

impl<S: Store> Store for FlakyStore<S> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        self.check_read()?;
        self.store.load(keys).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        self.check_read()?;
        if self.script.lock().unwrap().refuse_scans {
            return Err(StoreError::Unavailable(fault()).into());
        }
        self.store.scan(range, page).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        commit.check(&self.limits())?;
        match self.next_reaction() {
            Reaction::Apply => self.store.commit(commit).await,
            Reaction::Refuse => Err(CommitError::NotApplied(fault())),
            Reaction::RefusePuts
                if commit.writes().iter().any(|write| matches!(write, Write::Put { .. })) =>
            {
                Err(CommitError::NotApplied(fault()))
            }
            Reaction::RefusePuts => self.store.commit(commit).await,
            Reaction::Corrupt => Err(CommitError::Corrupt(fault())),
            Reaction::LoseAnswer => {
                let _lost = self.store.commit(commit).await;
                self.run_hook();
                Err(CommitError::Unknown(fault()))
            }
            Reaction::Late => {
                self.script.lock().unwrap().late.push(commit);
                self.run_hook();
                Err(CommitError::Unknown(fault()))
            }
            Reaction::HangBefore => {
                self.run_hook();
                pending().await
            }
            Reaction::HangAfter => {
                let _lost = self.store.commit(commit).await;
                self.run_hook();
                pending().await
            }
        }
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        self.store.watch(range, after).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        self.store.open_session(ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        let reaction = self.script.lock().unwrap().keep_alives;
        match reaction {
            None | Some(Reaction::Apply) => self.store.keep_alive(session).await,
            Some(Reaction::HangBefore) => pending().await,
            Some(_) => Err(StoreError::Unavailable(fault()).into()),
        }
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        self.store.close_session(session).await
    }

    fn limits(&self) -> StoreLimits {
        self.script.lock().unwrap().limits.unwrap_or_else(|| self.store.limits())
    }
}

/// A client of a store that yields before every call.
#[derive(Clone)]
pub(crate) struct YieldingStore<S>(pub(crate) S);

async fn yield_then<T>(call: impl Future<Output = T>) -> T {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
    call.await
}

impl<S: Store> Store for YieldingStore<S> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        yield_then(self.0.load(keys)).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        yield_then(self.0.scan(range, page)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        yield_then(self.0.commit(commit)).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        yield_then(self.0.watch(range, after)).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        yield_then(self.0.open_session(ttl)).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        yield_then(self.0.keep_alive(session)).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        yield_then(self.0.close_session(session)).await
    }

    fn limits(&self) -> StoreLimits {
        self.0.limits()
    }
}
