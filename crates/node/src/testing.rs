//! Helpers of the tests: a clock that only moves when all tasks wait.

use std::time::Duration;

use shardwright_contracts::{BoxFuture, Env, LogicalTime};
use tokio::time::Instant;

/// The environment of a test with a paused clock.
#[derive(Clone, Debug)]
pub(crate) struct PausedEnv(Instant);

impl PausedEnv {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Env for PausedEnv {
    fn wall_clock(&self) -> LogicalTime {
        LogicalTime::from_millis(self.0.elapsed().as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(tokio::spawn(task));
    }

    fn random(&self) -> u64 {
        4
    }
}
