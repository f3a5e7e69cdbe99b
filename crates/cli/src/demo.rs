//! A cluster on this machine under load and faults, to check that it keeps its promises.
//!
//! Each node and each gate is a process. Clients call at a steady rate, with a deadline and without
//! retries. The demonstration applies one event after the other, from joins to kills. At the end it
//! compares the clients' logs with the store.

mod events;
mod fleet;
mod movement;
mod process;
mod report;

pub(crate) use self::events::Event;
pub(crate) use self::fleet::{Fleet, Setup};
pub(crate) use self::movement::Movement;
pub(crate) use self::report::{Mark, Phase, Reporter};
