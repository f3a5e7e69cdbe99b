//! The real environment: the only module that uses a runtime, a clock and randomness.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

/// The real environment, on the current tokio runtime.
#[derive(Clone, Debug)]
pub struct TokioEnv {
    runtime: tokio::runtime::Handle,
    start: Moment,
}

/// A point on a monotonic clock that keeps running while the machine is suspended.
///
/// Sessions of a remote store expire while this machine is suspended. Sessions of a store in a
/// folder do not, because all its users are suspended too. With a folder store a member may stop
/// serving too early after a suspend, never too late.
#[cfg(target_os = "linux")]
#[derive(Clone, Copy, Debug)]
struct Moment(Duration);

#[cfg(target_os = "linux")]
impl Moment {
    fn now() -> Self {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::try_from(now).unwrap_or_default())
    }

    fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}

/// Fallback: a monotonic clock that may stop while the machine is suspended.
#[cfg(not(target_os = "linux"))]
use std::time::Instant as Moment;

impl TokioEnv {
    /// Uses the caller's runtime; none if the caller is outside of one.
    #[must_use]
    pub fn current() -> Option<Self> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(Self { runtime, start: Moment::now() })
    }
}

impl Env for TokioEnv {
    fn wall_clock(&self) -> LogicalTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        LogicalTime::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        // The task is detached. It ends when the object that it serves is dropped.
        drop(self.runtime.spawn(task));
    }

    fn random(&self) -> u64 {
        random()
    }
}

/// An unpredictable number from the operating system, for ids. A predictable id could collide with
/// the id of another process.
///
/// # Panics
///
/// Panics if the operating system has no randomness. Without it no id is safe to use.
#[must_use]
#[expect(clippy::panic, reason = "a weaker source would be used without notice")]
pub fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|error| panic!("no randomness: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn random_numbers_depend_on_no_seed_of_the_process() {
        let env = TokioEnv::current().unwrap();
        let draw: [&dyn Fn() -> u64; 2] = [&random, &|| env.random()];
        for draw in draw {
            let drawn = || {
                fastrand::seed(7);
                draw()
            };
            assert_ne!(drawn(), drawn());
        }
    }
}
