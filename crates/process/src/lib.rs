//! Jobs that are programs.
//!
//! Every program lives in a process group of its own that a [guard](guard::Guard) gives it. The
//! group is killed when the work is dropped, and by a tiny process in it when the pipe from its
//! worker closes: so no child survives its worker, however that ended.

mod batch;
mod guard;
mod item;
mod output;
mod persistent;
mod record;
mod run;
mod spill;
mod template;

pub use batch::{BatchInput, ProcessPerBatch};
pub use guard::{Guard, GuardError};
pub use item::ProcessPerItem;
pub use persistent::{PersistentError, PersistentProcess};
#[cfg(feature = "scan")]
pub(crate) use record::to_line;
pub use record::{ItemRecord, KeyText};
pub use spill::Spill;
pub use template::{Template, TemplateError};
