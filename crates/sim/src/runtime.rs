//! What simulated processes stand on: one thread, a virtual clock, and lines to a store on which
//! everything can go wrong.

pub(crate) mod env;
pub(crate) mod executor;
pub(crate) mod fault;
pub(crate) mod faults;
pub(crate) mod link;

use std::time::Duration;

use shardwright_store::SessionClock;

use self::executor::Clockwork;

/// When a world begins.
pub(crate) const BEGINNING_US: u64 = 1_000_000_000;

/// The clock by which a store's sessions live.
pub(crate) struct StoreClock(pub(crate) Clockwork);

impl SessionClock for StoreClock {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.now_us())
    }
}
