//! The environment of protocol drivers, passed as an argument.
//!
//! A driver does not read time, spawn tasks or draw random numbers from the operating system. It
//! uses its [`Env`]: a runtime in production, and a seeded single-threaded world with a virtual
//! clock in the simulator. There, the same seed gives the same history.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::LogicalTime;

/// A future whose type is erased.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time, tasks and randomness. Drivers share one as an `Arc<dyn Env>`.
pub trait Env: Send + Sync + 'static {
    /// The wall clock. It may jump in either direction.
    fn wall_clock(&self) -> LogicalTime;

    /// The time since a fixed moment, on a monotonic clock.
    fn monotonic(&self) -> Duration;

    /// Waits for `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs a task beside the caller, to its end or the end of the process.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// A number that no other process can predict, for ids and jitter.
    fn random(&self) -> u64;
}

/// A shared environment.
impl<E: Env + ?Sized> Env for Arc<E> {
    fn wall_clock(&self) -> LogicalTime {
        E::wall_clock(self)
    }

    fn monotonic(&self) -> Duration {
        E::monotonic(self)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        E::sleep(self, duration)
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        E::spawn(self, task);
    }

    fn random(&self) -> u64 {
        E::random(self)
    }
}
