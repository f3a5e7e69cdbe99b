//! Handlers that are programs.
//!
//! Every program lives in a process group of its own that a [guard](ProcessGuard) gives it. The
//! group is killed when the work is dropped, and by a tiny process in it when the pipe from its
//! worker closes: so no child survives its worker, however that ended.
//!
//! The module `scan` (a feature) is the built-in handler that looks for secrets.
#![forbid(unsafe_code)]

mod batch;
mod guard;
mod item;
mod output;
mod persistent;
mod record;
mod run;
#[cfg(feature = "scan")]
pub mod scan;
mod spill;
mod template;

pub use batch::{BatchInput, ProcessPerBatch};
pub use guard::{ProcessGuard, ProcessGuardError};
pub use item::ProcessPerItem;
pub use persistent::{PersistentError, PersistentProcess};
pub use record::{ItemRecord, KeyText};
pub use spill::{Spill, SpillStore};
pub use template::{Template, TemplateError};
