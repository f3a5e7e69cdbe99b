//! Handlers that are programs.
//!
//! A program is started by a guard, a process that adopts everything that the program starts. The
//! guard kills all of it when the work is dropped and when the worker ends. So no process of a
//! program outlives its worker, even one in a session of its own.
//!
//! The feature `programs` has the handlers that run programs, the feature `scan` the built-in
//! handler that searches for secrets. Without features the crate has only the records of results.
#![forbid(unsafe_code)]

mod limits;
mod placeholders;
mod record;
#[cfg(feature = "scan")]
pub mod scan;

#[cfg(feature = "programs")]
mod batch;
#[cfg(feature = "programs")]
mod guard;
#[cfg(feature = "programs")]
mod item;
#[cfg(feature = "programs")]
mod output;
#[cfg(feature = "programs")]
mod persistent;
#[cfg(feature = "programs")]
mod run;
#[cfg(feature = "programs")]
mod slots;
#[cfg(feature = "programs")]
mod spill;
#[cfg(feature = "programs")]
mod template;

#[cfg(feature = "programs")]
pub use batch::{BatchInput, ProcessPerBatch};
#[cfg(feature = "programs")]
pub use guard::{ProcessGuard, ProcessGuardError, run_as_guard};
#[cfg(feature = "programs")]
pub use item::ProcessPerItem;
pub use limits::Limits;
#[cfg(feature = "programs")]
pub use persistent::{Incoming, PersistentError, PersistentProcess, parse_line};
pub use placeholders::Placeholders;
pub use record::{ItemRecord, KeyText};
#[cfg(feature = "programs")]
pub use spill::{Spill, SpillStore};
#[cfg(feature = "programs")]
pub use template::{NoRowNumber, Template, TemplateError, text_of};
