//! A store in memory, for tests, simulations and short jobs.
//!
//! It has no runtime, no randomness and no clock of its own, so a simulator can replay everything.
//! [`Hooks`] intercept each call of one client. The methods of [`MemoryStore`] beyond [`Store`]
//! affect the whole store, as time and operators do.

mod hooks;
mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::hooks::{After, Before, HookedCall, Hooks, NoHooks};
pub use self::state::MemoryState;
use crate::clock::SessionClock;
use crate::commit::Commit;
use crate::error::{CommitError, Fault, ScanError, SessionError, StoreError, WatchError};
use crate::key::{Key, StoreRange};
use crate::limits::StoreLimits;
use crate::store::{Revision, ScanFrom, ScanPage, Session, SessionId, Snapshot, Store};
use crate::watch::{ChangeSender, Changes};

/// Options of a store in memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// How large a commit may be.
    pub limits: StoreLimits,
    /// How many changes the store keeps for scans and watches that lag.
    pub history: usize,
    /// How many changes a reader of a watch may lag.
    pub watch_capacity: usize,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        let limits = StoreLimits {
            expectations: 1_024,
            writes: 1_024,
            key_bytes: 1_024,
            bytes: 8 * 1_024 * 1_024,
        };
        Self { limits, history: 10_000, watch_capacity: 1_024 }
    }
}

/// A client of a store in memory.
pub struct MemoryStore<H = NoHooks> {
    shared: Arc<Shared>,
    hooks: Arc<H>,
}

struct Shared {
    options: MemoryOptions,
    clock: Arc<dyn SessionClock>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: MemoryState,
    watches: Vec<Watch>,
    watches_held: bool,
    sessions_outlive: Duration,
}

struct Watch {
    range: StoreRange,
    seen: Revision,
    sender: ChangeSender,
}

impl MemoryStore {
    /// An empty store whose sessions expire by a clock.
    #[must_use]
    pub fn new(clock: Arc<dyn SessionClock>) -> Self {
        Self::with_options(clock, MemoryOptions::default())
    }

    /// An empty store with options.
    #[must_use]
    pub fn with_options(clock: Arc<dyn SessionClock>, options: MemoryOptions) -> Self {
        let inner = Inner {
            state: MemoryState::new(options.history),
            watches: Vec::new(),
            watches_held: false,
            sessions_outlive: Duration::ZERO,
        };
        let shared = Shared { options, clock, inner: Mutex::new(inner) };
        Self { shared: Arc::new(shared), hooks: Arc::new(NoHooks) }
    }
}

impl<H: Hooks> MemoryStore<H> {
    /// Another client of the same store, with its own hooks.
    #[must_use]
    pub fn client<Other: Hooks>(&self, hooks: Arc<Other>) -> MemoryStore<Other> {
        MemoryStore { shared: Arc::clone(&self.shared), hooks }
    }

    /// The latest revision.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.lock().state.revision()
    }

    /// Inspects the state of the store.
    pub fn inspect<T>(&self, look: impl FnOnce(&MemoryState) -> T) -> T {
        look(&self.lock().state)
    }

    /// Ends all expired sessions. Every call does so as well.
    pub fn expire_sessions(&self) {
        let now = self.shared.clock.now();
        self.lock().expire_sessions(now);
    }

    /// The time until the next session expires, without another keep-alive.
    #[must_use]
    pub fn until_next_expiry(&self) -> Option<Duration> {
        let now = self.shared.clock.now();
        let inner = self.lock();
        let deadline = inner.state.next_expiry()?.saturating_add(inner.sessions_outlive);
        Some(deadline.saturating_sub(now))
    }

    /// Ends sessions when they expire, for as long as it is polled. Watches then report the end
    /// without a call to the store.
    pub async fn reap<F: Future<Output = ()>>(&self, sleep: impl Fn(Duration) -> F) {
        const AT_MOST: Duration = Duration::from_millis(100);
        loop {
            self.expire_sessions();
            sleep(self.until_next_expiry().map_or(AT_MOST, |until| until.min(AT_MOST))).await;
        }
    }

    /// Ends a session early. Returns whether it existed.
    pub fn end_session(&self, session: SessionId) -> bool {
        self.lock().change(|state| state.close_session(session)).is_ok()
    }

    /// Delays the end of all sessions beyond their TTL.
    pub fn let_sessions_outlive(&self, by: Duration) {
        self.lock().sessions_outlive = by;
    }

    /// Compacts the history. Older scans must start again, and watches that lag behind the revision
    /// get a gap.
    pub fn compact(&self, before: Revision) {
        self.lock().state.compact(before);
    }

    /// Ends all watches with a gap.
    pub fn break_watches(&self) {
        for mut watch in self.lock().watches.drain(..) {
            watch.sender.fail(WatchError::Gap);
        }
    }

    /// Holds back the changes of all watches until they are released.
    pub fn hold_watches(&self) {
        self.lock().watches_held = true;
    }

    /// Delivers the changes that were held back.
    pub fn release_watches(&self) {
        let mut inner = self.lock();
        inner.watches_held = false;
        inner.notify_watches();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The state changes after everything that can fail, so it is consistent even after a panic.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call between its hooks. `lost` creates the error for a lost answer.
    async fn call<T, E>(
        &self,
        call: HookedCall<'_>,
        refused: impl Fn(Fault) -> E,
        damaged: impl Fn(Fault) -> E,
        lost: impl Fn(Fault) -> E,
        run: impl FnOnce(&mut Inner, Option<Revision>) -> Result<T, E>,
    ) -> Result<T, E> {
        let as_of = match self.hooks.before(call).await {
            Before::Go => None,
            Before::AsOf(revision) => Some(revision),
            Before::Refuse(fault) => return Err(refused(fault)),
            Before::Damaged(fault) => return Err(damaged(fault)),
            Before::Lose(fault) => return Err(lost(fault)),
        };
        let now = self.shared.clock.now();
        let result = {
            let mut inner = self.lock();
            inner.expire_sessions(now);
            run(&mut inner, as_of)
        };
        match self.hooks.after(call).await {
            After::Answer => result,
            After::Lose(fault) => Err(lost(fault)),
        }
    }

    async fn call_session<T>(
        &self,
        call: HookedCall<'_>,
        run: impl FnOnce(&mut Inner) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let unavailable = |fault| SessionError::Store(StoreError::Unavailable(fault));
        let corrupt = |fault| SessionError::Store(StoreError::Corrupt(fault));
        self.call(call, unavailable, corrupt, unavailable, |inner, _| run(inner)).await
    }
}

impl<H: Hooks> Store for MemoryStore<H> {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        let (unavailable, corrupt) = (StoreError::Unavailable, StoreError::Corrupt);
        let run = |inner: &mut Inner, as_of: Option<Revision>| {
            Ok(inner.state.load(keys, as_of.unwrap_or_else(|| inner.state.revision())))
        };
        self.call(HookedCall::Load(keys), unavailable, corrupt, unavailable, run).await
    }

    async fn scan(&self, range: &StoreRange, page: ScanFrom) -> Result<ScanPage, ScanError> {
        let unavailable = |fault| ScanError::Store(StoreError::Unavailable(fault));
        let corrupt = |fault| ScanError::Store(StoreError::Corrupt(fault));
        let run = |inner: &mut Inner, as_of: Option<Revision>| {
            let at = as_of.unwrap_or_else(|| inner.state.revision());
            inner.state.scan(range, &page, at)
        };
        self.call(HookedCall::Scan(range, &page), unavailable, corrupt, unavailable, run).await
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        commit.check(&self.shared.options.limits)?;
        let run = |inner: &mut Inner, _| inner.change(|state| state.commit(&commit));
        let (refused, lost) = (CommitError::NotApplied, CommitError::Unknown);
        self.call(HookedCall::Commit(&commit), refused, CommitError::Corrupt, lost, run).await
    }

    async fn watch(&self, range: &StoreRange, after: Revision) -> Result<Changes, WatchError> {
        let unavailable = |fault| WatchError::Store(StoreError::Unavailable(fault));
        let corrupt = |fault| WatchError::Store(StoreError::Corrupt(fault));
        let capacity = self.shared.options.watch_capacity;
        let run = |inner: &mut Inner, _| inner.watch(range, after, capacity);
        self.call(HookedCall::Watch(range, after), unavailable, corrupt, unavailable, run).await
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        let run = |inner: &mut Inner| Ok(inner.state.open_session(ttl, self.shared.clock.now()));
        self.call_session(HookedCall::OpenSession(ttl), run).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        let run = |inner: &mut Inner| inner.state.keep_alive(session, self.shared.clock.now());
        self.call_session(HookedCall::KeepAlive(session), run).await
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        let run = |inner: &mut Inner| inner.change(|state| state.close_session(session));
        self.call_session(HookedCall::CloseSession(session), run).await
    }

    fn limits(&self) -> StoreLimits {
        self.shared.options.limits
    }
}

impl Inner {
    /// Changes the state and notifies the watches.
    fn change<T>(&mut self, change: impl FnOnce(&mut MemoryState) -> T) -> T {
        let result = change(&mut self.state);
        self.notify_watches();
        result
    }

    fn expire_sessions(&mut self, now: Duration) {
        let over = now.saturating_sub(self.sessions_outlive);
        if self.state.next_expiry().is_some_and(|deadline| deadline <= over) {
            self.change(|state| state.expire_sessions(over));
        }
    }

    fn watch(
        &mut self,
        range: &StoreRange,
        after: Revision,
        capacity: usize,
    ) -> Result<Changes, WatchError> {
        if after < self.state.compacted() {
            return Err(WatchError::Gap);
        }
        let (sender, changes) = Changes::channel(capacity);
        self.watches.push(Watch { range: range.clone(), seen: after, sender });
        self.notify_watches();
        Ok(changes)
    }

    fn notify_watches(&mut self) {
        if self.watches_held {
            return;
        }
        let now = self.state.revision();
        self.watches.retain_mut(|watch| {
            if now <= watch.seen {
                return !watch.sender.is_closed();
            }
            match self.state.changes(&watch.range, watch.seen, now) {
                Ok(sets) => {
                    watch.seen = now;
                    sets.into_iter().all(|set| watch.sender.send(set)) && !watch.sender.is_closed()
                }
                Err(gap) => {
                    watch.sender.fail(gap);
                    false
                }
            }
        });
    }
}

impl<H> Clone for MemoryStore<H> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), hooks: Arc::clone(&self.hooks) }
    }
}

impl<H> fmt::Debug for MemoryStore<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("options", &self.shared.options).finish_non_exhaustive()
    }
}
