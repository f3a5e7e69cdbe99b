//! The clock by which processes of one machine can tell what came first.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds since the machine was started, the same for every process.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000) + u64::try_from(time.tv_nsec).unwrap_or_default()
}
