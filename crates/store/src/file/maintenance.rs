//! A thread for events that no call triggers: commits of other processes, the end of sessions,
//! abandoned scans, and tasks that time out.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::Setup;
use super::apply::millis;
use super::error::SqliteFailure;
use super::feed::Feed;
use super::readers::Readers;
use super::rows::load_sessions;
use super::schema::{READER_PATIENCE, Role, connect, data_version};
use super::write_queue::WriteQueue;
use super::writer::WriteTask;
use crate::batch::Batcher;

/// Interval while there are watches.
const WATCHED: Duration = Duration::from_millis(5);
/// Interval while there are sessions, scans or tasks.
const AWAKE: Duration = Duration::from_millis(50);
/// Interval otherwise.
const IDLE: Duration = Duration::from_millis(500);
/// Shortest interval between two checks of sessions.
const SESSIONS: Duration = Duration::from_millis(10);

/// The thread.
#[derive(Debug)]
pub(super) struct Maintenance {
    wake_up: Arc<WakeUp>,
    thread: Option<JoinHandle<()>>,
    started: Instant,
    called_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct WakeUp {
    state: Mutex<Called>,
    sent: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Called {
    #[default]
    No,
    Look,
    Stop,
}

struct Round {
    setup: Arc<Setup>,
    batcher: Batcher<WriteQueue>,
    readers: Arc<Readers>,
    feed: Arc<Feed>,
    connection: Option<Connection>,
    seen: Seen,
    sessions_looked_at: Option<Instant>,
    has_sessions: bool,
}

/// The version of the database up to which all changes were delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen(Option<i64>);

impl Seen {
    /// Delivers new changes. If that fails, they stay new.
    fn follow(&mut self, version: i64, deliver: impl FnOnce() -> bool) {
        if self.0 != Some(version) {
            self.0 = deliver().then_some(version);
        }
    }
}

impl Maintenance {
    pub(super) fn start(
        setup: Arc<Setup>,
        batcher: Batcher<WriteQueue>,
        readers: Arc<Readers>,
        feed: Arc<Feed>,
    ) -> io::Result<Self> {
        let wake_up = Arc::new(WakeUp::default());
        let mut round = Round {
            setup,
            batcher,
            readers,
            feed,
            connection: None,
            seen: Seen::default(),
            sessions_looked_at: None,
            has_sessions: false,
        };
        let heard = Arc::clone(&wake_up);
        let name = "shardwright-file-maintenance".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || {
            while heard.wait(round.pause()) {
                round.look();
            }
        })?;
        let (started, called_ms) = (Instant::now(), AtomicU64::new(0));
        Ok(Self { wake_up, thread: Some(thread), started, called_ms })
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        self.wake_up.send(Called::Look);
    }

    /// Wakes the thread, unless it has just run.
    pub(super) fn wake_if_idle(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let rest = u64::try_from(SESSIONS.as_millis()).unwrap_or(u64::MAX);
        let last = self.called_ms.load(Ordering::Relaxed);
        if now.saturating_sub(last) >= rest {
            self.called_ms.store(now, Ordering::Relaxed);
            self.wake();
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&mut self) {
        self.wake_up.send(Called::Stop);
        if let Some(thread) = self.thread.take() {
            // A panicked thread has already stopped.
            let _panicked = thread.join();
        }
    }
}

impl WakeUp {
    fn send(&self, called: Called) {
        let mut state = self.lock();
        if *state != Called::Stop {
            *state = called;
        }
        drop(state);
        self.sent.notify_all();
    }

    /// Waits for a wake-up or a timeout. Returns whether to continue.
    fn wait(&self, time: Duration) -> bool {
        let waiting = |called: &mut Called| *called == Called::No;
        let state = self.sent.wait_timeout_while(self.lock(), time, waiting);
        let (mut state, _) = state.unwrap_or_else(PoisonError::into_inner);
        match *state {
            Called::Stop => false,
            Called::No | Called::Look => {
                *state = Called::No;
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Called> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Round {
    fn pause(&self) -> Duration {
        if self.feed.is_watched() {
            WATCHED
        } else if self.has_sessions
            || self.readers.has_pins()
            || self.batcher.engine().is_waited_for()
        {
            AWAKE
        } else {
            IDLE
        }
    }

    fn look(&mut self) {
        self.batcher.engine().refuse_overdue();
        // Callers start their own batches, unless they are never polled again.
        self.batcher.start_waiting();
        self.readers.drop_old_pins();
        if self.look_into_database().is_err() {
            // Callers get the same error from their own calls. The next round reconnects.
            self.connection = None;
            self.seen = Seen::default();
        }
    }

    fn look_into_database(&mut self) -> Result<(), SqliteFailure> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.setup.path, Role::Reader, READER_PATIENCE)?,
        };
        if self.feed.is_watched() {
            self.seen.follow(data_version(&connection)?, || self.feed.pull());
        } else {
            self.seen = Seen::default();
        }
        if self.sessions_looked_at.is_none_or(|last| last.elapsed() >= SESSIONS) {
            self.sessions_looked_at = Some(Instant::now());
            let sessions = load_sessions(&connection)?;
            self.has_sessions = !sessions.is_empty();
            let now = millis(self.setup.clock.now());
            let owners: BTreeSet<_> = sessions.iter().map(|session| session.owner).collect();
            let is_over = sessions.iter().any(|session| session.deadline_ms <= now);
            if is_over || owners.into_iter().any(|owner| self.setup.is_owner_gone(owner)) {
                self.batcher.engine().submit(WriteTask::EndSessions);
            }
        }
        self.connection = Some(connection);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undelivered_changes_stay_new() {
        let mut seen = Seen::default();
        let mut tried = Vec::new();
        for (version, succeeds) in [(1, true), (1, true), (2, false), (2, false), (2, true)] {
            seen.follow(version, || {
                tried.push((version, succeeds));
                succeeds
            });
        }
        assert_eq!(tried, [(1, true), (2, false), (2, false), (2, true)]);
        seen.follow(2, || panic!("delivered twice"));
    }
}
