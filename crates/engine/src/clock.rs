//! The time that leases are judged by.
//!
//! It is the calendar's as long as that behaves, and it never goes back. While the calendar is
//! behind by no more than an interval, time stands still and waits for it. If the calendar is
//! behind by more, it was set back: time goes on at half the pace of the clock that does not jump,
//! so that leases still end and the calendar can catch up.
//!
//! That holds over a restart, because no time is told that is later than a mark in the store
//! allows, and whoever starts begins at the mark. A mark reaches an interval beyond the calendar,
//! or is the very time that is told, whichever is later. So whoever starts is at most an interval
//! ahead of its calendar or of those who run already, and starts add up to nothing.
//!
//! Whoever changes something asks for the time first. So what has to be compared before anything is
//! changed is compared by the mark, and whoever starts stores one before it tells a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, InfraError, LogicalTime};
use shardwright_store::{AnyStore, Commit, Conflict, Expect, Key, Revision, Store, Versioned};

use crate::codec::{ClockMarkRecord, Record};
use crate::fault;
use crate::floor::FenceFloor;
use crate::single_flight::SingleFlight;
use crate::transact::{self, Driver, Settled, Tries};

const OPERATION: &str = "clock.mark";

/// How often a mark is tried to be stored.
const MARKS: usize = 16;

/// In how many strides time that is ahead of the calendar makes an interval.
const STRIDES_PER_INTERVAL: u64 = 4;

/// The clock of one coordinator.
pub struct EngineClock {
    key: Key,
    interval_ms: u64,
    state: Mutex<State>,
    floor: FenceFloor,
    /// One at a time stores a mark; the others find it stored.
    marking: SingleFlight,
}

/// Follows the calendar and never goes back.
#[derive(Clone, Copy, Debug)]
struct ClockRate {
    told: LogicalTime,
    interval_ms: u64,
    /// Since when `told` is what is told, on the clock that does not jump.
    stands_since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct State {
    pace: ClockRate,
    /// No later time may be told before a new mark is stored.
    allowed_until: LogicalTime,
    mark_at: Option<Revision>,
}

impl ClockRate {
    /// Tells no time before `earliest`, and waits for a calendar that is behind by no more than
    /// the interval.
    fn new(env: &dyn Env, earliest: LogicalTime, interval_ms: u64) -> Self {
        Self { told: earliest, interval_ms, stands_since: env.monotonic() }
    }

    /// What time it is.
    fn read(&mut self, env: &dyn Env) -> LogicalTime {
        let (wall, monotonic) = (env.wall_clock(), env.monotonic());
        if self.told.millis_since(wall) <= self.interval_ms {
            self.told = self.told.max(wall);
            self.stands_since = monotonic;
            return self.told;
        }
        // Whole strides only: a time that is told exactly at its mark gives those who start
        // nothing to be ahead by. What is left of a stride counts for the next one.
        let stride_ms = (self.interval_ms / STRIDES_PER_INTERVAL).max(1);
        let stands_ms = monotonic.saturating_sub(self.stands_since).as_millis();
        let strides = u64::try_from(stands_ms).unwrap_or(u64::MAX) / stride_ms / 2;
        let gone_ms = strides.saturating_mul(stride_ms);
        self.told = self.told.saturating_add(gone_ms);
        let passed = Duration::from_millis(gone_ms.saturating_mul(2));
        self.stands_since = self.stands_since.saturating_add(passed);
        self.told
    }

    /// Tells no earlier time from now on.
    fn begin_at(&mut self, env: &dyn Env, earliest: LogicalTime) {
        if self.told < earliest {
            (self.told, self.stands_since) = (earliest, env.monotonic());
        }
    }
}

impl EngineClock {
    /// Goes on from a mark that was found in the store.
    pub fn new(
        env: &dyn Env,
        key: Key,
        interval_ms: u64,
        mark: Option<(ClockMarkRecord, Revision)>,
        floor: FenceFloor,
    ) -> Self {
        let allowed_until = mark.map_or(LogicalTime::ZERO, |(mark, _)| mark.reserved_until);
        let state = State {
            pace: ClockRate::new(env, allowed_until, interval_ms),
            allowed_until,
            mark_at: mark.map(|(_, at)| at),
        };
        Self { key, interval_ms, state: Mutex::new(state), floor, marking: SingleFlight::default() }
    }

    /// No fence below this one is granted or accepted.
    pub fn fence_floor(&self) -> FenceEpoch {
        self.floor.get()
    }

    /// What time it is.
    pub async fn now(&self, store: &AnyStore, env: &dyn Env) -> Result<LogicalTime, InfraError> {
        self.marking.get(|| self.allowed(env), self.mark_until_allowed(store, env)).await
    }

    /// What time it is, for whoever only looks. Where no mark can be stored, it is the latest time
    /// that may be told without one.
    pub async fn now_at_most(&self, store: &AnyStore, env: &dyn Env) -> LogicalTime {
        // Nobody who only looks waits for what has just failed.
        if !self.marking.is_trying_in_vain()
            && let Ok(now) = self.now(store, env).await
        {
            return now;
        }
        // Others may have stored one; if that cannot be read, neither can what is looked for.
        let _unread = self.look(store, env).await;
        self.read(env).min(self.state().allowed_until)
    }

    /// What time it is, if it may be told.
    fn allowed(&self, env: &dyn Env) -> Option<LogicalTime> {
        let now = self.read(env);
        (self.floor.is_sure() && now <= self.state().allowed_until).then_some(now)
    }

    fn read(&self, env: &dyn Env) -> LogicalTime {
        self.lock().pace.read(env)
    }

    async fn mark_until_allowed(
        &self,
        store: &AnyStore,
        env: &dyn Env,
    ) -> Result<LogicalTime, InfraError> {
        // Retry loop: one caller marks for all that wait, and a mark may lie behind by then.
        for _ in 0..MARKS {
            self.mark(store, env).await?;
            if let Some(now) = self.allowed(env) {
                return Ok(now);
            }
        }
        Err(fault::contention(OPERATION))
    }

    /// Stores a mark that allows the present, or finds one that somebody else has stored.
    async fn mark(&self, store: &AnyStore, env: &dyn Env) -> Result<(), InfraError> {
        let State { mark_at: known, allowed_until, .. } = self.state();
        let by_calendar = env.wall_clock().saturating_add(self.interval_ms);
        let now = self.read(env);
        // What others may have told stays allowed.
        let reserved_until = by_calendar.max(now).max(allowed_until);
        let mark = ClockMarkRecord { reserved_until };
        let commit = Commit::builder()
            .expect(self.key.clone(), known.map_or(Expect::Absent, Expect::At))
            .put(self.key.clone(), mark.encode());
        let commit = transact::build(OPERATION, self.floor.compare_in(commit))?;
        let driver = Driver::new(store.clone(), None, 0);
        match driver.settle(OPERATION, &commit, Tries::Once).await {
            Ok(Settled::Stored(at)) => {
                self.floor.confirm();
                self.allow(env, mark, Some(at));
                Ok(())
            }
            Ok(Settled::Conflict(Conflict { found })) => {
                let under = |key: &Key| {
                    let entry = found.iter().find(|(found, _)| found == key);
                    entry.and_then(|(_, found)| found.as_ref())
                };
                self.floor.learn(under(self.floor.key()), OPERATION)?;
                self.allow_found(env, under(&self.key))
            }
            // Whoever waits for the time has done nothing yet, and nothing is unknown to them.
            Err(InfraError::Unknown { .. }) => self.look(store, env).await,
            Ok(settled) => Err(settled.into_failure(OPERATION)),
            Err(error) => Err(error),
        }
    }

    /// Goes by the mark that is stored.
    async fn look(&self, store: &AnyStore, env: &dyn Env) -> Result<(), InfraError> {
        let loaded = store.load(std::slice::from_ref(&self.key)).await;
        let loaded = loaded.map_err(|error| fault::read(OPERATION, &error))?;
        self.allow_found(env, loaded.values.first().and_then(Option::as_ref))
    }

    /// Goes by a mark that was found.
    fn allow_found(&self, env: &dyn Env, found: Option<&Versioned>) -> Result<(), InfraError> {
        let (mark, at) = match found {
            Some(found) => {
                let mark = ClockMarkRecord::decode(&found.value)
                    .map_err(|error| fault::decode(OPERATION, &error))?;
                (mark, Some(found.revision))
            }
            None => (ClockMarkRecord { reserved_until: LogicalTime::ZERO }, None),
        };
        self.allow(env, mark, at);
        Ok(())
    }

    /// Whoever has a mark that lies further ahead than ours ever would tells such times. Leases
    /// that they grant and those that we grant are to be judged by about the same time, so we
    /// follow.
    fn allow(&self, env: &dyn Env, mark: ClockMarkRecord, at: Option<Revision>) {
        let mut state = self.lock();
        state.allowed_until = state.allowed_until.max(mark.reserved_until);
        state.mark_at = at;
        let told_elsewhere = mark.reserved_until.as_millis().saturating_sub(self.interval_ms);
        state.pace.begin_at(env, LogicalTime::from_millis(told_elsewhere));
    }

    fn state(&self) -> State {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // What is inside is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
