use std::time::Duration;

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

use super::{Doctored, Plant};
use crate::ground::env::SimEnv;

/// The longest wait that ends.
const LONGEST: Duration = Duration::from_millis(100);

impl Env for Doctored<SimEnv> {
    fn wall_clock(&self) -> LogicalTime {
        self.inner.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        match self.plant {
            Some(Plant::ClockStandsStill) => Duration::from_secs(1_000),
            _ => self.inner.monotonic(),
        }
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let is_endless = self.plant == Some(Plant::SleepsForever) && duration > LONGEST;
        let duration = if is_endless { Duration::MAX } else { duration };
        self.inner.sleep(duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.inner.spawn(task);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}
