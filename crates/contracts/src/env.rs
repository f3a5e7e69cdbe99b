//! What code that drives the protocols needs of the world, as an argument.
//!
//! Nothing that drives a protocol asks the operating system for the time, a task or a random
//! number. It asks its [`Env`]: a runtime in production, a seeded single-threaded world with a
//! virtual clock in the simulator, where the same seed must give the same history.

use std::future::Future;
use std::time::Duration;

use crate::LogicalTime;

/// Time, tasks and chance.
pub trait Env: Clone + Send + Sync + 'static {
    /// What the calendar's clock says. It may jump, in either direction.
    fn wall_clock(&self) -> LogicalTime;

    /// How long it is since some fixed moment, on a clock that never jumps.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Runs a task beside the caller, to its end or the end of the world.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);

    /// A random number.
    fn random(&self) -> u64;
}
