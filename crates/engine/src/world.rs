//! The world as it is: the one place here that knows a runtime, a clock and chance.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

mod blocking;
#[cfg(feature = "etcd")]
mod etcd;
mod folder;
mod tokio_env;

pub use blocking::{Blocking, BlockingError};
#[cfg(feature = "etcd")]
pub use etcd::{AsyncEtcdCoordinator, EtcdCoordinator, EtcdError};
pub use folder::{FileCoordinator, FolderError};
pub use tokio_env::TokioEnv;
