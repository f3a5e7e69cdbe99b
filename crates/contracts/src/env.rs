//! What code that drives the protocols needs of the world, as an argument.
//!
//! Nothing that drives a protocol asks the operating system for the time, a task or a random
//! number. It asks its [`Env`]: a runtime in production, a seeded single-threaded world with a
//! virtual clock in the simulator, where the same seed must give the same history.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::LogicalTime;

/// A future whose type is erased.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Time, tasks and chance. Drivers share one as an `Arc<dyn Env>`.
pub trait Env: Send + Sync + 'static {
    /// What the calendar's clock says. It may jump, in either direction.
    fn wall_clock(&self) -> LogicalTime;

    /// How long it is since some fixed moment, on a clock that never jumps.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Runs a task beside the caller, to its end or the end of the world.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// A random number.
    fn random(&self) -> u64;
}

/// An environment that is shared already.
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
