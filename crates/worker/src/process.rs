//! Jobs that are programs.
//!
//! Every child lives in the process group of a [guard](guard::Guard), a tiny process that kills the
//! group when the pipe from its worker closes: so no child survives its worker, however that ended.

mod batch;
mod guard;
mod item;
mod persistent;
mod record;
mod run;
mod spill;
mod template;

pub use batch::{BatchInput, ProcessPerBatch};
pub use guard::{Guard, GuardError};
pub use item::ProcessPerItem;
pub use persistent::{PersistentError, PersistentProcess};
pub use record::{ItemRecord, KeyText};
pub use spill::Spill;
pub use template::{Template, TemplateError};
