//! The real world: the only module that knows a runtime, a clock and chance.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

/// The world as it is, on the current tokio runtime.
#[derive(Clone, Debug)]
pub struct TokioEnv {
    runtime: tokio::runtime::Handle,
    start: Moment,
}

/// A moment on a clock that never jumps, and goes on while the machine sleeps.
///
/// The sessions of a store on other machines do not wait for a machine that sleeps. Those of a
/// store in a folder do, for all who use it sleep as well; whoever goes by this clock then stops
/// serving too early, which costs a pause, and never too late.
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

/// Where there is no such clock, one that may stand still while the machine sleeps.
#[cfg(not(target_os = "linux"))]
use std::time::Instant as Moment;

impl TokioEnv {
    /// Uses the runtime that the caller runs on; none if there is none.
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
        // Nobody waits for it: it ends by itself when what it serves is gone.
        drop(self.runtime.spawn(task));
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
