//! The clock that sessions live by.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A clock that only runs forward. Its zero means nothing.
pub trait SessionClock: Send + Sync + 'static {
    /// How long it has run.
    fn now(&self) -> Duration;
}

/// The clock of the machine: the same in all its processes, and standing still while it sleeps,
/// as they do. It restarts with the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

impl SessionClock for MachineClock {
    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    /// Starts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by);
    }
}

impl SessionClock for ManualClock {
    fn now(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
