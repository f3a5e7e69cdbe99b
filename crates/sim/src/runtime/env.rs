use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shardwright_contracts::{BoxFuture, Env, LogicalTime};

use super::executor::{Clockwork, TaskOwner};
use crate::rng::Rng;

/// Time, tasks and randomness of one process.
#[derive(Clone)]
pub(crate) struct SimEnv {
    clock: Clockwork,
    process: usize,
    /// Offset of the process's wall clock.
    off_ms: Arc<AtomicI64>,
    chance: Arc<Mutex<Rng>>,
}

impl SimEnv {
    pub(crate) fn new(
        clock: Clockwork,
        process: usize,
        off_ms: Arc<AtomicI64>,
        chance: Rng,
    ) -> Self {
        Self { clock, process, off_ms, chance: Arc::new(Mutex::new(chance)) }
    }
}

impl Env for SimEnv {
    fn wall_clock(&self) -> LogicalTime {
        let off_ms = self.off_ms.load(Ordering::Relaxed);
        LogicalTime::from_millis(self.clock.now_ms().saturating_add_signed(off_ms))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.clock.now_us())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let clock = self.clock.clone();
        Box::pin(async move {
            clock.sleep_us(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)).await;
        })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.clock.spawn(TaskOwner::Process(self.process), task);
    }

    fn random(&self) -> u64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}
