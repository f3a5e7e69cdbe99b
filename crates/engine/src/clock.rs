//! The time that leases are judged by.
//!
//! It is the calendar's time as long as that behaves. It never goes back: if the calendar is set
//! back, it goes on by a clock that does not jump, and if it is ahead by a little, at half the
//! pace until the calendar has caught up. That holds over a restart, because no time is told that
//! is later than a mark in the store allows, and whoever starts begins no earlier than the mark.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::{Env, LogicalTime};
use shardwright_coordination::InfraError;
use shardwright_store::{Commit, CommitError, Expect, Key, Revision, Store, Versioned};

use crate::codec::{ClockMark, Record};
use crate::fault;
use crate::planted::{self, Defect};

const OPERATION: &str = "clock.mark";

/// How often a mark is tried to be stored.
const MARKS: usize = 16;

/// How far ahead of the calendar the clock may be and still wait for it.
const SLEW_MS: u64 = 60_000;

/// The clock of one coordinator.
pub(crate) struct EngineClock {
    key: Key,
    interval_ms: u64,
    state: Mutex<State>,
    /// One at a time stores a mark; the others find it stored.
    marking: tokio::sync::Mutex<()>,
}

/// Follows the calendar and never goes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    told: LogicalTime,
    /// When `told` was true, on the clock that does not jump.
    told_at: Duration,
}

#[derive(Clone, Copy, Debug)]
struct State {
    pace: Pace,
    /// No later time may be told before a new mark is stored.
    allowed_until: LogicalTime,
    mark_at: Option<Revision>,
}

impl Pace {
    /// Tells no time before `earliest`.
    pub(crate) fn new(env: &impl Env, earliest: LogicalTime) -> Self {
        Self { told: earliest, told_at: env.monotonic() }
    }

    /// What time it is.
    pub(crate) fn read(&mut self, env: &impl Env) -> LogicalTime {
        let (wall, monotonic) = (env.wall_clock(), env.monotonic());
        let passed = monotonic.saturating_sub(self.told_at).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        // Ahead by now, not when it was last read, or one that is seldom read never waits.
        let ahead_ms = self.told.saturating_add(passed).millis_since(wall);
        let pace = if (1..=SLEW_MS).contains(&ahead_ms) { 2 } else { 1 };
        let ticked = self.told.saturating_add(passed / pace);
        // Only whole milliseconds are taken, or frequent calls would lose time.
        self.told_at = self.told_at.saturating_add(Duration::from_millis(passed));
        self.told = ticked.max(wall);
        self.told
    }
}

impl EngineClock {
    /// Goes on from a mark that was found in the store.
    pub(crate) fn new(
        env: &impl Env,
        key: Key,
        interval_ms: u64,
        mark: Option<(ClockMark, Revision)>,
    ) -> Self {
        let mark = mark.filter(|_| !planted::is_active(Defect::ClockGoesBack));
        let allowed_until = mark.map_or(LogicalTime::ZERO, |(mark, _)| mark.reserved_until);
        let state = State {
            pace: Pace::new(env, allowed_until),
            allowed_until,
            mark_at: mark.map(|(_, at)| at),
        };
        let marking = tokio::sync::Mutex::new(());
        Self { key, interval_ms, state: Mutex::new(state), marking }
    }

    /// What time it is.
    pub(crate) async fn now(
        &self,
        store: &impl Store,
        env: &impl Env,
    ) -> Result<LogicalTime, InfraError> {
        let now = self.read(env);
        if now <= self.state().allowed_until {
            return Ok(now);
        }
        let _marking = self.marking.lock().await;
        for _ in 0..MARKS {
            if now <= self.state().allowed_until {
                return Ok(now);
            }
            self.mark(store, now).await?;
        }
        Err(fault::contention(OPERATION))
    }

    fn read(&self, env: &impl Env) -> LogicalTime {
        self.lock().pace.read(env)
    }

    /// Stores a mark that allows `now`, or finds one that somebody else has stored.
    async fn mark(&self, store: &impl Store, now: LogicalTime) -> Result<(), InfraError> {
        let known = self.state().mark_at;
        let mark = ClockMark { reserved_until: now.saturating_add(self.interval_ms) };
        let commit = Commit::builder()
            .expect(self.key.clone(), known.map_or(Expect::Absent, Expect::At))
            .put(self.key.clone(), mark.encode())
            .build()
            .map_err(|error| fault::corrupt(OPERATION, error.to_string()))?;
        match store.commit(commit).await {
            Ok(at) => {
                self.allow(mark, Some(at));
                Ok(())
            }
            Err(CommitError::Conflict(conflict)) => {
                self.allow_found(conflict.found.into_iter().find_map(|(_, found)| found))
            }
            // Whoever waits for the time has done nothing yet, and nothing is unknown to them.
            Err(CommitError::Unknown(_)) => {
                let loaded = store.load(std::slice::from_ref(&self.key)).await;
                let loaded = loaded.map_err(|error| fault::read(OPERATION, &error))?;
                self.allow_found(loaded.values.into_iter().next().flatten())
            }
            Err(error) => Err(fault::commit(OPERATION, &error)),
        }
    }

    /// Goes by a mark that was found.
    fn allow_found(&self, found: Option<Versioned>) -> Result<(), InfraError> {
        let (mark, at) = match found {
            Some(found) => {
                let mark = ClockMark::decode(&found.value)
                    .map_err(|error| fault::decode(OPERATION, &error))?;
                (mark, Some(found.revision))
            }
            None => (ClockMark { reserved_until: LogicalTime::ZERO }, None),
        };
        self.allow(mark, at);
        Ok(())
    }

    fn allow(&self, mark: ClockMark, at: Option<Revision>) {
        let mut state = self.lock();
        state.allowed_until = state.allowed_until.max(mark.reserved_until);
        state.mark_at = at;
    }

    fn state(&self) -> State {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // What is inside is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
