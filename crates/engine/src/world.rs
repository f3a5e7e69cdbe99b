//! The world as it is: the one place here that knows a runtime, a clock and chance.

mod folder;
mod tokio_env;

pub use folder::{FileCoordinator, FolderError};
pub use tokio_env::TokioEnv;
