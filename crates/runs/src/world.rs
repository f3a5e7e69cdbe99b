//! Coordinators in the real world, and for callers that block.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

mod blocking;
#[cfg(feature = "etcd")]
mod etcd;
mod folder;

pub use blocking::{Blocking, BlockingError};
#[cfg(feature = "etcd")]
pub use etcd::{AsyncEtcdCoordinator, EtcdCoordinator, EtcdError};
pub use folder::{FileCoordinator, FileCoordinatorError};
