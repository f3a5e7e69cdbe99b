use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use shardwright_contracts::{Env, LogicalTime};

/// The world as it is, on the current tokio runtime.
#[derive(Clone, Debug)]
pub struct TokioEnv {
    runtime: tokio::runtime::Handle,
    start: Instant,
}

impl TokioEnv {
    /// Uses the runtime that the caller runs on; none if there is none.
    #[must_use]
    pub fn current() -> Option<Self> {
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(Self { runtime, start: Instant::now() })
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

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(duration)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Nobody waits for it: it ends by itself when what it serves is gone.
        drop(self.runtime.spawn(task));
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
