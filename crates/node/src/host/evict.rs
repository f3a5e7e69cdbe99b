//! Deactivates objects: idle ones, those over the limit, and all of a shard.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use shardwright_contracts::Env;

use tokio::sync::oneshot;

use super::cell::{CellState, LiveObject, ObjectCell};
use super::residents::{Residence, Resting};
use super::{Admission, Entered, ObjectHost, ObjectLock, Slot};
use crate::call::ObjectKey;
use crate::notices::Activity;
use crate::object::Deactivation;
use crate::waiting::within;

/// How many objects are deactivated concurrently.
const AT_ONCE: usize = 64;
/// Timeout for all objects of a shard, as a multiple of the timeout of one.
const IN_ALL: u32 = 12;
/// The shortest pause between two searches for idle objects.
const PAUSE: Duration = Duration::from_millis(100);

/// Why an object at rest cannot be evicted now.
enum Blocked {
    /// Its shard is being claimed, handed over or released.
    Shard,
    /// A call uses it or waits for it.
    Object,
}

/// An object that is about to be evicted, taken out of its cell. It is locked like an object that
/// handles a call, so its shard is not handed over before it is deactivated.
struct Victim {
    live: LiveObject,
    lock: ObjectLock,
}

impl ObjectHost {
    /// Counts an object that is about to be activated, and evicts the least recently used objects
    /// beyond the ceiling. Returns `None` for an object that is never evicted.
    pub(super) async fn make_room(self: &Arc<Self>, key: &ObjectKey) -> Option<Residence> {
        if self.auto_load.iter().any(|one| one.loads(key)) {
            return None;
        }
        let residence = self.residents.enter();
        while self.residents.count() > self.options.objects_max {
            let Some(victim) = self.victim(Duration::MAX) else { break };
            // It fails if the runtime stops.
            let _ = self.begin_eviction(victim).await;
        }
        Some(residence)
    }

    /// Evicts objects that were idle for too long. Never returns.
    pub(crate) async fn evict_idle(self: &Arc<Self>) {
        let Some(idle_max) = self.options.idle_max else { return std::future::pending().await };
        loop {
            let now = self.env.monotonic();
            let oldest = now.checked_sub(idle_max);
            let find = || oldest.and_then(|oldest| self.victim(oldest));
            let victims = std::iter::from_fn(find).take(AT_ONCE);
            let mut leaving: FuturesUnordered<_> =
                victims.map(|victim| self.begin_eviction(victim)).collect();
            if leaving.is_empty() {
                let next = self.residents.search().next().map_or(now, |(_, one)| one.since);
                let pause = next.saturating_add(idle_max).saturating_sub(now);
                self.env.sleep(pause.max(PAUSE)).await;
            }
            while leaving.next().await.is_some() {}
        }
    }

    /// Takes the least recently used object that may be evicted and has rested at least since
    /// `latest`. It looks once at each shard, and once at each object that a call is about to use.
    fn victim(&self, latest: Duration) -> Option<Victim> {
        let mut search = self.residents.search();
        loop {
            let (turn, resting) = search.next()?;
            if resting.since > latest {
                return None;
            }
            let shard = resting.shard;
            match self.take_resting(resting) {
                Ok(victim) => return Some(victim),
                Err(Blocked::Shard) => {}
                Err(Blocked::Object) => search.pass_object(turn, shard),
            }
        }
    }

    /// Takes an object out of its cell. Does not wait.
    fn take_resting(&self, Resting { shard, key, .. }: Resting) -> Result<Victim, Blocked> {
        let token = self.serving.token();
        let (slot, lock) = match shard {
            Some(shard) => {
                let slot = self.slot(shard).map_err(|_| Blocked::Shard)?;
                let lock = self.locks.try_acquire_read(shard).ok().flatten();
                (slot, Some(lock.ok_or(Blocked::Shard)?))
            }
            None => (&self.own_slot, None),
        };
        if !self.serving.may_serve() {
            return Err(Blocked::Shard);
        }
        let Admission::Admitted(admitted) = slot.admit(lock, None, false) else {
            return Err(Blocked::Shard);
        };
        let cell = slot.existing(&key).ok_or(Blocked::Object)?;
        let state = cell.try_lock().ok_or(Blocked::Object)?;
        let mut entered = Entered { slot: Arc::clone(slot), key, cell, state };
        let CellState::Active(mut live) = std::mem::replace(&mut *entered.state, CellState::Gone)
        else {
            return Err(Blocked::Object);
        };
        if let Some(residence) = &mut live.residence {
            residence.leave();
        }
        Ok(Victim { live, lock: ObjectLock { token, entered, admitted } })
    }

    /// Deactivates an object in a separate task, so that it ends even if nothing waits for it.
    fn begin_eviction(&self, victim: Victim) -> oneshot::Receiver<()> {
        let (done, ended) = oneshot::channel();
        let (env, notice_log) = (Arc::clone(&self.env), Arc::clone(&self.notice_log));
        let limit = self.env.monotonic().saturating_add(self.options.deactivation_max);
        self.env.spawn(Box::pin(async move {
            let Victim { live, lock } = victim;
            let leaving = AssertUnwindSafe(live.deactivate(Deactivation::Evicted)).catch_unwind();
            let left = tokio::select! {
                biased;
                left = within(&*env, limit, leaving) => matches!(left, Some(Ok(()))),
                // The shard may be lost, so the object has nothing left to store.
                () = lock.token.clone().over() => true,
            };
            if !left {
                let why = "an evicted object was dropped before it was deactivated";
                notice_log.record(Activity::Deactivate, why);
            }
            drop(lock);
            // The waiting call may be gone.
            let _ = done.send(());
        }));
        ended
    }
}

impl ObjectHost {
    /// Deactivates all objects of a shard, and returns how many were dropped before they were done.
    /// No call runs in the shard, and none starts: the caller holds the write lock, or has
    /// cancelled all calls.
    pub(crate) async fn evict(&self, slot: &Arc<Slot>, why: Deactivation) -> u64 {
        let each = self.options.deactivation_max;
        deactivate_all(Arc::clone(&self.env), each, slot.take_objects().into_values(), why).await
    }

    /// Ends the session: cancels all calls at once, and deactivates all objects.
    pub(crate) fn end(&self) -> impl Future<Output = ()> + Send + use<> {
        self.serving.cancel_calls();
        let mut cells = Vec::new();
        for slot in self.slots.iter().map(|(_, slot)| slot).chain([&self.own_slot]) {
            slot.drop_claim();
            cells.extend(slot.take_objects().into_values());
        }
        let (env, each) = (Arc::clone(&self.env), self.options.deactivation_max);
        // The shards are lost, so dropped objects have nothing left to store.
        deactivate_all(env, each, cells.into_iter(), Deactivation::Lost).map(|_dropped| ())
    }
}

/// Deactivates objects, some at a time, and returns how many were dropped.
///
/// Calls may wait for the shard, and a deactivation may never end. So each object has a timeout. If
/// none ends within it, or all together take too long, the others are polled only once.
async fn deactivate_all(
    env: Arc<dyn Env>,
    each: Duration,
    mut cells: impl Iterator<Item = Arc<ObjectCell>> + Send,
    why: Deactivation,
) -> u64 {
    let latest = env.monotonic().saturating_add(each.saturating_mul(IN_ALL));
    let mut limit = env.monotonic().saturating_add(each);
    let mut leaving = FuturesUnordered::new();
    let (mut dropped, mut is_over) = (0, false);
    loop {
        let from_now = env.monotonic().saturating_add(each).min(latest);
        let own_limit = if is_over { Duration::ZERO } else { from_now };
        let next = cells.by_ref().take(AT_ONCE.saturating_sub(leaving.len()));
        leaving.extend(next.map(|cell| deactivate_one(Arc::clone(&env), own_limit, cell, why)));
        let left = if is_over {
            Some(leaving.next().await)
        } else {
            within(&*env, limit, leaving.next()).await
        };
        match left {
            Some(Some(true)) => limit = env.monotonic().saturating_add(each).min(latest),
            Some(Some(false)) => dropped += 1,
            Some(None) => return dropped,
            None => {
                dropped += leaving.len() as u64;
                (leaving, is_over) = (FuturesUnordered::new(), true);
            }
        }
    }
}

/// Deactivates an object, and returns whether that ended in time. An object that does not end, or
/// panics, is dropped.
async fn deactivate_one(
    env: Arc<dyn Env>,
    limit: Duration,
    cell: Arc<ObjectCell>,
    why: Deactivation,
) -> bool {
    let leaving = async {
        let state = std::mem::replace(&mut *cell.lock().await, CellState::Gone);
        if let CellState::Active(live) = state {
            live.deactivate(why).await;
        }
    };
    let left = within(&*env, limit, AssertUnwindSafe(leaving).catch_unwind()).await;
    matches!(left, Some(Ok(())))
}
