//! A store whose commits meet a fate that the test has chosen.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shardwright_store::{
    Changes, Commit, CommitError, Fault, FaultKind, Key, Revision, ScanError, ScanFrom, ScanPage,
    Session, SessionError, SessionId, Snapshot, Store, StoreError, StoreLimits, StoreRange,
    WatchError, Write,
};

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All goes well.
    Go,
    /// It is refused.
    Refuse,
    /// It is refused if it writes anything: the store is full, and only deletes.
    RefusePuts,
    /// The store is damaged.
    Corrupt,
    /// It is applied, and the answer gets lost.
    LoseAnswer,
    /// It gets lost, or is only late: [`Flaky::deliver_late`] applies it.
    Late,
    /// Nothing more is heard of it, and it was not applied.
    HangBefore,
    /// Nothing more is heard of it, and it was applied.
    HangAfter,
}

#[derive(Default)]
struct Script {
    fates: VecDeque<Fate>,
    /// What becomes of commits when no fate is left for them.
    afterwards: Option<Fate>,
    late: Vec<Commit>,
    refuse_reads: bool,
    refuse_scans: bool,
    /// What becomes of signs of life; they go well unless something else is said.
    signs: Option<Fate>,
    commits: usize,
    limits: Option<StoreLimits>,
}

type Happening = Box<dyn FnMut() + Send>;

/// A client of a store with a script of its own; clones share it.
#[derive(Clone)]
pub(crate) struct Flaky<S> {
    store: S,
    script: Arc<Mutex<Script>>,
    /// Called when a commit is late, hangs, or its answer gets lost.
    meanwhile: Arc<Mutex<Option<Happening>>>,
}

impl<S: Store> Flaky<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store, script: Arc::default(), meanwhile: Arc::default() }
    }

    pub(crate) fn with_limits(store: S, limits: StoreLimits) -> Self {
        let flaky = Self::new(store);
        flaky.script.lock().unwrap().limits = Some(limits);
        flaky
    }

    /// The fates of the next commits; those after them go well.
    pub(crate) fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        let mut script = self.script.lock().unwrap();
        script.fates = fates.into_iter().collect();
        script.afterwards = None;
    }

    /// The fate of the commit after the next `skip`, which go well, and of all that follow.
    pub(crate) fn henceforth(&self, skip: usize, fate: Fate) {
        let mut script = self.script.lock().unwrap();
        script.fates = std::iter::repeat_n(Fate::Go, skip).collect();
        script.afterwards = Some(fate);
    }

    /// The fates of the next commits, and of all that follow.
    pub(crate) fn script(&self, fates: impl IntoIterator<Item = Fate>, afterwards: Fate) {
        let mut script = self.script.lock().unwrap();
        script.fates = fates.into_iter().collect();
        script.afterwards = Some(afterwards);
    }

    pub(crate) fn refuse_reads(&self, refuse: bool) {
        self.script.lock().unwrap().refuse_reads = refuse;
    }

    /// Whether keys can be read one by one, and not as a range.
    pub(crate) fn refuse_scans(&self, refuse: bool) {
        self.script.lock().unwrap().refuse_scans = refuse;
    }

    /// The fate of all signs of life from now on: one of going well, being refused, or never being
    /// answered.
    pub(crate) fn signs(&self, fate: Fate) {
        self.script.lock().unwrap().signs = Some(fate);
    }

    /// What happens when a commit meets with an accident, once.
    pub(crate) fn meanwhile(&self, happens: impl FnMut() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(happens));
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> usize {
        self.script.lock().unwrap().commits
    }

    /// Commits that come late arrive now. Tells how many of them were applied.
    pub(crate) async fn deliver_late(&self) -> usize {
        let late = std::mem::take(&mut self.script.lock().unwrap().late);
        let mut applied = 0;
        for commit in late {
            applied += usize::from(self.store.commit(commit).await.is_ok());
        }
        applied
    }

    fn fate(&self) -> Fate {
        let mut script = self.script.lock().unwrap();
        script.commits += 1;
        script.fates.pop_front().or(script.afterwards).unwrap_or(Fate::Go)
    }

    fn accident(&self) {
        let happens = self.meanwhile.lock().unwrap().take();
        happens.into_iter().for_each(|mut happens| happens());
    }

    fn check_read(&self) -> Result<(), StoreError> {
        match self.script.lock().unwrap().refuse_reads {
            true => Err(StoreError::Unavailable(fault())),
            false => Ok(()),
        }
    }
}

fn fault() -> Fault {
    Fault::new(FaultKind::Full, "the test says so")
}

impl<S: Store> Store for Flaky<S> {
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
        match self.fate() {
            Fate::Go => self.store.commit(commit).await,
            Fate::Refuse => Err(CommitError::NotApplied(fault())),
            Fate::RefusePuts
                if commit.writes().iter().any(|write| matches!(write, Write::Put { .. })) =>
            {
                Err(CommitError::NotApplied(fault()))
            }
            Fate::RefusePuts => self.store.commit(commit).await,
            Fate::Corrupt => Err(CommitError::Corrupt(fault())),
            Fate::LoseAnswer => {
                let _lost = self.store.commit(commit).await;
                self.accident();
                Err(CommitError::Unknown(fault()))
            }
            Fate::Late => {
                self.script.lock().unwrap().late.push(commit);
                self.accident();
                Err(CommitError::Unknown(fault()))
            }
            Fate::HangBefore => {
                self.accident();
                pending().await
            }
            Fate::HangAfter => {
                let _lost = self.store.commit(commit).await;
                self.accident();
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
        let fate = self.script.lock().unwrap().signs;
        match fate {
            None | Some(Fate::Go) => self.store.keep_alive(session).await,
            Some(Fate::HangBefore) => pending().await,
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

/// Another client of the same store, whose every call lets others go first.
#[derive(Clone)]
pub(crate) struct Polite<S>(pub(crate) S);

async fn after_others<T>(call: impl Future<Output = T>) -> T {
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

impl<S: Store> Store for Polite<S> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        after_others(self.0.load(keys)).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        after_others(self.0.scan(range, page)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        after_others(self.0.commit(commit)).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        after_others(self.0.watch(range, after)).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        after_others(self.0.open_session(ttl)).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        after_others(self.0.keep_alive(session)).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        after_others(self.0.close_session(session)).await
    }

    fn limits(&self) -> StoreLimits {
        self.0.limits()
    }
}
