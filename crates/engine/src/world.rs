//! The world as it is: the one place here that knows a runtime, a clock and chance.

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
