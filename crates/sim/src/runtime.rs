//! The runtime of simulated processes: one thread, a virtual clock, and faulty links to a store.

pub(crate) mod direct;
pub(crate) mod env;
pub(crate) mod executor;
pub(crate) mod fault;
pub(crate) mod faults;
pub(crate) mod link;

use std::time::Duration;

use shardwright_store::SessionClock;

use self::executor::Clockwork;

/// Start time of a world.
pub(crate) const BEGINNING_US: u64 = 1_000_000_000;

/// The clock of a store's sessions.
pub(crate) struct StoreClock(pub(crate) Clockwork);

impl SessionClock for StoreClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_us())
    }
}
