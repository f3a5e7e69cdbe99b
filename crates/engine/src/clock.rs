//! The logical clock that leases expire by.
//!
//! It follows the wall clock and never goes back. While the wall clock is behind by at most an
//! interval, logical time stands still. If the wall clock is behind by more, it was set back.
//! Logical time then runs at half the rate of the monotonic clock, so that leases still expire and
//! the wall clock can catch up.
//!
//! This holds across restarts. The clock returns no time later than a mark in the store, and a
//! starting clock begins at the mark. A mark is an interval ahead of the wall clock, or the
//! returned time if that is later. So a starting clock is at most an interval ahead of its wall
//! clock or of the running clocks, and repeated starts do not add up.
//!
//! Every operation that changes something reads the clock first. So a comparison that must precede
//! every change is made by the mark, and a starting clock stores a mark before it returns a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::{Env, FenceEpoch, InfraError, LogicalTime};
use shardwright_store::{AnyStore, Commit, Conflict, Expect, Key, Revision, Versioned};

use crate::codec::{ClockMarkRecord, Record};
use crate::fault;
use crate::floor::FenceFloor;
use crate::listing;
use crate::single_flight::SingleFlight;
use crate::transact::{self, Driver, Settled, Tries};
use crate::{Operation, operation};

const OPERATION: Operation = operation!("clock");

/// Attempts to store a mark.
const MARK_RETRIES: usize = 16;

/// Steps per interval of a clock that is ahead of the wall clock.
const STEPS_PER_INTERVAL: u64 = 4;

/// The clock of one coordinator.
pub struct EngineClock {
    key: Key,
    interval_ms: u64,
    state: Mutex<State>,
    floor: FenceFloor,
    /// One caller stores a mark for all that wait.
    marking: SingleFlight,
}

/// Follows the wall clock and never goes back.
#[derive(Clone, Copy, Debug)]
struct ClockRate {
    returned: LogicalTime,
    interval_ms: u64,
    /// When `returned` last changed, on the monotonic clock.
    unchanged_since: Duration,
}

#[derive(Clone, Copy, Debug)]
struct State {
    rate: ClockRate,
    /// The latest time that the stored mark allows.
    allowed_until: LogicalTime,
    mark_at: Option<Revision>,
}

impl ClockRate {
    /// Returns no time before `earliest`, and waits for a wall clock that is behind by at most the
    /// interval.
    fn new(env: &dyn Env, earliest: LogicalTime, interval_ms: u64) -> Self {
        Self { returned: earliest, interval_ms, unchanged_since: env.monotonic() }
    }

    /// Returns the time.
    fn read(&mut self, env: &dyn Env) -> LogicalTime {
        let (wall, monotonic) = (env.wall_clock(), env.monotonic());
        if self.returned.millis_since(wall) <= self.interval_ms {
            self.returned = self.returned.max(wall);
            self.unchanged_since = monotonic;
            return self.returned;
        }
        // Whole steps only: a clock that starts at a mark equal to the returned time is not ahead.
        // The rest of a step counts toward the next one.
        let step_ms = (self.interval_ms / STEPS_PER_INTERVAL).max(1);
        let unchanged_ms = monotonic.saturating_sub(self.unchanged_since).as_millis();
        let steps = u64::try_from(unchanged_ms).unwrap_or(u64::MAX) / step_ms / 2;
        let elapsed_ms = steps.saturating_mul(step_ms);
        self.returned = self.returned.saturating_add(elapsed_ms);
        let passed = Duration::from_millis(elapsed_ms.saturating_mul(2));
        self.unchanged_since = self.unchanged_since.saturating_add(passed);
        self.returned
    }

    /// Returns no earlier time from now on.
    fn raise_to(&mut self, env: &dyn Env, earliest: LogicalTime) {
        if self.returned < earliest {
            (self.returned, self.unchanged_since) = (earliest, env.monotonic());
        }
    }
}

impl EngineClock {
    /// Continues from a stored mark.
    pub fn new(
        env: &dyn Env,
        key: Key,
        interval_ms: u64,
        mark: Option<(ClockMarkRecord, Revision)>,
        floor: FenceFloor,
    ) -> Self {
        let allowed_until = mark.map_or(LogicalTime::ZERO, |(mark, _)| mark.reserved_until);
        let state = State {
            rate: ClockRate::new(env, allowed_until, interval_ms),
            allowed_until,
            mark_at: mark.map(|(_, at)| at),
        };
        Self { key, interval_ms, state: Mutex::new(state), floor, marking: SingleFlight::default() }
    }

    /// The lowest valid fence.
    pub fn fence_floor(&self) -> FenceEpoch {
        self.floor.get()
    }

    /// Returns the time.
    pub async fn now(&self, store: &AnyStore, env: &dyn Env) -> Result<LogicalTime, InfraError> {
        self.marking.get(|| self.allowed(env), self.mark_until_allowed(store, env)).await
    }

    /// The time for an operation that changes nothing. If no mark can be stored, it is the latest
    /// time that the last mark allows.
    pub async fn now_at_most(&self, store: &AnyStore, env: &dyn Env) -> LogicalTime {
        // A read does not wait for a retry of a failed mark.
        if !self.marking.is_retrying()
            && let Ok(now) = self.now(store, env).await
        {
            return now;
        }
        // Another process may have stored a mark. If the store cannot be read, the operation's own
        // read fails too.
        let _unread = self.load_mark(store, env).await;
        self.read(env).min(self.state().allowed_until)
    }

    /// The time, if the mark allows it.
    fn allowed(&self, env: &dyn Env) -> Option<LogicalTime> {
        let now = self.read(env);
        (self.floor.is_confirmed() && now <= self.state().allowed_until).then_some(now)
    }

    fn read(&self, env: &dyn Env) -> LogicalTime {
        self.lock().rate.read(env)
    }

    async fn mark_until_allowed(
        &self,
        store: &AnyStore,
        env: &dyn Env,
    ) -> Result<LogicalTime, InfraError> {
        // Retry loop: one caller marks for all that wait, and the mark may be outdated by then.
        for _ in 0..MARK_RETRIES {
            self.mark(store, env).await?;
            if let Some(now) = self.allowed(env) {
                return Ok(now);
            }
        }
        Err(fault::contention(OPERATION))
    }

    /// Stores a mark that allows the current time, or adopts another process's mark.
    async fn mark(&self, store: &AnyStore, env: &dyn Env) -> Result<(), InfraError> {
        let State { mark_at: known, allowed_until, .. } = self.state();
        let by_calendar = env.wall_clock().saturating_add(self.interval_ms);
        let now = self.read(env);
        // Times that other processes may have returned stay allowed.
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
            // The operation has changed nothing yet, so its own outcome is not unknown.
            Err(InfraError::Unknown { .. }) => self.load_mark(store, env).await,
            Ok(settled) => Err(settled.into_failure(OPERATION)),
            Err(error) => Err(error),
        }
    }

    /// Adopts the stored mark.
    async fn load_mark(&self, store: &AnyStore, env: &dyn Env) -> Result<(), InfraError> {
        let (found, _) = listing::load_one(store, &self.key, OPERATION).await?;
        self.allow_found(env, found.as_ref())
    }

    /// Adopts a mark that was read.
    fn allow_found(&self, env: &dyn Env, found: Option<&Versioned>) -> Result<(), InfraError> {
        let (mark, at) = match listing::decode_if_found(found, OPERATION)? {
            Some((mark, at)) => (mark, Some(at)),
            None => (ClockMarkRecord { reserved_until: LogicalTime::ZERO }, None),
        };
        self.allow(env, mark, at);
        Ok(())
    }

    /// Adopts a mark, and follows clocks that are further ahead: leases that all processes grant
    /// must expire by about the same time.
    fn allow(&self, env: &dyn Env, mark: ClockMarkRecord, at: Option<Revision>) {
        let mut state = self.lock();
        state.allowed_until = state.allowed_until.max(mark.reserved_until);
        state.mark_at = at;
        let others_returned = mark.reserved_until.as_millis().saturating_sub(self.interval_ms);
        state.rate.raise_to(env, LogicalTime::from_millis(others_returned));
    }

    fn state(&self) -> State {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
