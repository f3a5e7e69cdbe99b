//! An environment whose clock the test moves. Tests of other crates use it, too.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that panics is a test that fails, and each uses what it needs"
)]

pub(crate) mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use shardwright_contracts::{BoxFuture, Env, LogicalTime};
use shardwright_store::SessionClock;

/// A clock that the test advances, in milliseconds.
#[derive(Clone, Default)]
pub(crate) struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub(crate) fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::Relaxed);
    }

    pub(crate) fn millis(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl SessionClock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis())
    }
}

/// An environment with tokio's tasks and pauses and the test's clock.
#[derive(Clone)]
pub(crate) struct TestEnv {
    pub(crate) clock: ManualClock,
}

impl Env for TestEnv {
    fn wall_clock(&self) -> LogicalTime {
        LogicalTime::from_millis(self.clock.millis())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.clock.millis())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // Back-offs take real time. Longer pauses outlast the test.
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(tokio::spawn(task));
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}
