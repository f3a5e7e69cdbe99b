//! A cluster on this machine that is put under load and troubled, to see whether it keeps its
//! promises.
//!
//! Every node and every gate is a process of its own. Clients make a steady number of calls, each
//! once and with a deadline. What may be asked of a cluster is then done to it, one thing after the
//! other, and at the end the logs of the clients are compared with the store.

mod events;
mod fleet;
mod movement;
mod process;
mod report;

pub(crate) use self::events::Event;
pub(crate) use self::fleet::{Fleet, Setup};
pub(crate) use self::movement::Movement;
pub(crate) use self::report::{Mark, Phase, Reporter};
