//! The clock of sessions.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A monotonic clock with an arbitrary zero.
pub trait SessionClock: Send + Sync + 'static {
    /// The time since the clock's zero.
    fn now(&self) -> Duration;
}

/// The monotonic clock of the machine. All processes read the same time. It stops while the machine
/// is suspended, and restarts with the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

impl SessionClock for MachineClock {
    fn now(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
    }
}

/// A clock that only moves when [`ManualClock::advance`] is called.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    /// A clock at zero.
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
