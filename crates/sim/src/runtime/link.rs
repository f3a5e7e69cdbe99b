//! A process's faulty link to the store, which is a store itself.
//!
//! A commit is delivered by a task of its own. It may arrive after its sender has crashed or given
//! up.

use std::sync::Arc;
use std::time::Duration;

use shardwright_store::memory::MemoryStore;
use shardwright_store::{
    ChangeSender, Changes, Commit, CommitError, Fault, FaultKind, Key, Revision, ScanError,
    ScanFrom, ScanPage, Session, SessionError, SessionId, Snapshot, Store, StoreError, StoreLimits,
    StoreRange, WatchError,
};
use tokio::sync::oneshot;

use super::executor::{Clockwork, TaskOwner};
use super::fault::StoreFault;
use super::faults::{Author, Cut, Delivery, Faults, Journey, STALE_MAX, TIMEOUT_US};
use crate::planted::tamper::{Tamper, Untouched};

/// Most changes that a process may be behind.
const WATCH_CAPACITY: usize = 256;

/// The link of one process.
#[derive(Clone)]
pub(crate) struct Link {
    store: MemoryStore,
    limits: StoreLimits,
    clock: Clockwork,
    faults: Faults,
    process: usize,
    tamper: Arc<dyn Tamper>,
}

/// Whether a commit claims or releases a shard of a cluster.
fn claims(commit: &Commit) -> bool {
    commit.writes().iter().any(|write| write.key().to_string().contains("/claim/"))
}

fn silence() -> Fault {
    Fault::new(FaultKind::TimedOut, "the store does not answer")
}

fn unavailable() -> StoreError {
    StoreError::Unavailable(silence())
}

impl Link {
    pub(crate) fn new(
        store: MemoryStore,
        limits: StoreLimits,
        clock: Clockwork,
        faults: Faults,
        process: usize,
    ) -> Self {
        Self { store, limits, clock, faults, process, tamper: Arc::new(Untouched) }
    }

    /// The same link with a planted bug.
    pub(crate) fn tampered(self, tamper: Arc<dyn Tamper>) -> Self {
        Self { tamper, ..self }
    }

    /// Delivers a request other than a commit, or loses it.
    async fn reach(&self) -> Result<(), StoreError> {
        let (delay_us, fails) = {
            let mut faults = self.faults.lock();
            (faults.delay_us(), faults.strikes(12, StoreFault::ReadFailed))
        };
        self.clock.sleep_us(delay_us).await;
        if fails || self.faults.lock().cut(self.process) != Cut::Nothing {
            self.clock.sleep_us(TIMEOUT_US).await;
            return Err(unavailable());
        }
        Ok(())
    }

    /// The revision that a read shows.
    fn moment(&self) -> Revision {
        self.store.expire_sessions();
        let now = self.store.revision();
        let mut faults = self.faults.lock();
        if faults.serves_stale && faults.strikes(150, StoreFault::ReadStale) {
            let behind = faults.rng.between(1, STALE_MAX);
            return Revision::new(now.get().saturating_sub(behind));
        }
        now
    }

    /// Delivers a commit to the store, and its answer to the sender.
    async fn carry(
        self,
        commit: Commit,
        journey: Journey,
        author: Author,
        reply: oneshot::Sender<Result<Revision, CommitError>>,
    ) {
        self.clock.sleep_us(journey.there_us).await;
        let is_claimless = self.faults.lock().claimless.contains(&self.process);
        let delivery = match self.faults.lock().cut(self.process) {
            Cut::Everything => Delivery::Lose,
            Cut::Nothing | Cut::Replies if is_claimless && claims(&commit) => {
                Delivery::Refuse { is_full: false }
            }
            Cut::Nothing | Cut::Replies => journey.delivery,
        };
        let result = match delivery {
            Delivery::Arrive => self.apply(&commit, journey.number, author).await,
            Delivery::Lose => return self.time_out(reply, journey.reset).await,
            Delivery::Refuse { is_full } => {
                let kind = if is_full { FaultKind::Full } else { FaultKind::Unreachable };
                Err(CommitError::NotApplied(Fault::new(kind, "the store accepts no commit")))
            }
        };
        self.clock.sleep_us(journey.back_us).await;
        let is_cut = self.faults.lock().cut(self.process) != Cut::Nothing;
        if is_cut || journey.reply_lost {
            return self.time_out(reply, journey.reset).await;
        }
        // The sender may have given up.
        let _given_up = reply.send(result);
        // A refused commit has no effect, however often it is delivered.
        if let (Some(again_us), Delivery::Arrive) = (journey.again_us, delivery) {
            self.clock.sleep_us(again_us).await;
            let _unheard = self.apply(&commit, journey.number, author).await;
        }
    }

    /// Lets the sender time out, or resets its connection.
    async fn time_out<T>(&self, reply: oneshot::Sender<T>, reset: bool) {
        if reset {
            self.faults.lock().fault(StoreFault::ConnectionReset);
        } else {
            self.clock.sleep_us(2 * TIMEOUT_US).await;
        }
        drop(reply);
    }

    async fn apply(
        &self,
        commit: &Commit,
        number: u64,
        author: Author,
    ) -> Result<Revision, CommitError> {
        let result = self.store.commit(commit.clone()).await;
        if let Ok(revision) = &result {
            self.faults.lock().note_applied(number, commit, *revision, author);
        }
        result
    }

    async fn send_keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        self.reach().await?;
        if self.faults.lock().strikes(40, StoreFault::KeepAliveLost) {
            return Err(unavailable().into());
        }
        self.store.keep_alive(session).await
    }

    /// Delivers the changes of a watch, with delays.
    async fn pump(self, mut changes: Changes, mut sender: ChangeSender, mut seen: Revision) {
        loop {
            let next = {
                let mut closed = std::pin::pin!(sender.closed());
                let mut next = std::pin::pin!(changes.next());
                std::future::poll_fn(|context| {
                    if closed.as_mut().poll(context).is_ready() {
                        return std::task::Poll::Ready(None);
                    }
                    next.as_mut().poll(context).map(Some)
                })
                .await
            };
            let Some(next) = next else { return };
            let (delay_us, breaks) = {
                let mut faults = self.faults.lock();
                let mut delay_us = faults.delay_us();
                if faults.strikes(25, StoreFault::WatchDelayed) {
                    delay_us += faults.rng.between(50_000, 700_000);
                }
                (delay_us, faults.strikes(12, StoreFault::WatchBroken))
            };
            self.clock.sleep_us(delay_us).await;
            while self.faults.lock().cut(self.process) != Cut::Nothing && !sender.is_closed() {
                self.clock.sleep_us(20_000).await;
            }
            let is_compacted = seen < self.store.inspect(|state| state.compacted());
            if is_compacted {
                self.faults.lock().fault(StoreFault::WatchCompacted);
            }
            match next {
                Ok(set) if !breaks && !is_compacted => {
                    seen = set.revision;
                    if !sender.send(set) {
                        return;
                    }
                }
                Ok(set) if self.tamper.swallows_gaps() => seen = set.revision,
                Ok(_) | Err(_) => return sender.fail(WatchError::Gap),
            }
        }
    }
}

impl Store for Link {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        self.reach().await?;
        let moment = self.moment();
        let snapshot = self.store.inspect(|state| state.load(keys, moment));
        let snapshot = self.tamper.loaded(keys, snapshot);
        let back_us = self.faults.lock().delay_us();
        self.clock.sleep_us(back_us).await;
        Ok(snapshot)
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        self.reach().await?;
        let moment = self.moment();
        let found = self.store.inspect(|state| state.scan(range, &page, moment));
        let back_us = {
            let mut faults = self.faults.lock();
            // In a real store this happens between two pages. Here one page holds everything.
            if page.after.is_none() && faults.strikes(15, StoreFault::ScanMoved) {
                return Err(ScanError::Moved);
            }
            faults.delay_us()
        };
        self.clock.sleep_us(back_us).await;
        found.map(|page| self.tamper.scanned(page))
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        commit.check(&self.limits)?;
        let Some(commit) = self.tamper.commit(&self.store, commit) else {
            return Ok(self.store.revision());
        };
        let author = Author { process: self.process, task: self.clock.current(), by_fault: false };
        let journey = self.faults.lock().journey();
        let (reply, answer) = oneshot::channel();
        self.clock.spawn(TaskOwner::Network, self.clone().carry(commit, journey, author, reply));
        let outcome = match self.clock.within(TIMEOUT_US, answer).await {
            Some(Ok(result)) => result,
            Some(Err(_)) | None => Err(CommitError::Unknown(silence())),
        };
        self.tamper.outcome(&self.store, outcome)
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        self.reach().await?;
        let changes = self.store.watch(range, after).await?;
        let (sender, passed_on) = Changes::channel(WATCH_CAPACITY);
        self.clock.spawn(TaskOwner::Network, self.clone().pump(changes, sender, after));
        Ok(passed_on)
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        self.reach().await?;
        self.store.open_session(ttl).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        let kept = self.send_keep_alive(session).await;
        self.tamper.kept_alive(kept)
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        self.reach().await?;
        self.store.close_session(session).await
    }

    fn limits(&self) -> StoreLimits {
        self.limits
    }
}
