//! A named job: a run with a source, a handler and a place for results.
//!
//! [`begin`] finds the run of a name or makes it, and decides whether it is the one that was
//! requested. [`description`] is stored with it, so that a process that joins or retries does the
//! same work. [`output`] is the place of its results and records which run owns it, [`books`] is
//! the journal of each process beside them, [`conclude`] writes the result file and the
//! [receipt](receipt::Receipt). [`verify`] recomputes what the receipt states by another route and
//! shares no code with it.
#![forbid(unsafe_code)]

mod agreement;
pub mod begin;
pub mod books;
pub mod command;
pub mod conclude;
pub mod description;
mod naming;
mod open;
mod options;
pub mod output;
pub mod readable;
pub mod receipt;
mod sink;
pub mod source;
#[cfg(any(test, feature = "test-support"))]
pub mod testing;
pub mod verify;

pub use open::{Coordinator, TENANT, open, open_on};
pub use options::JobOptions;
