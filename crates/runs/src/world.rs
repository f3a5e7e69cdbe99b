//! Coordinators in a folder, on etcd, and for blocking callers.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

mod blocking;

use std::path::Path;

use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
#[cfg(feature = "etcd")]
use shardwright_store::StoreError;
#[cfg(feature = "etcd")]
use shardwright_store::etcd::{EtcdOptions, EtcdStore};
use shardwright_store::file::{FileOpenError, FileOptions, FileStore};

pub use self::blocking::{Blocking, BlockingError};
use crate::config::{CoordinatorOpenError, EngineConfig};
use crate::coordinator::StoredCoordinator;

/// The run protocol in a folder of this machine, for any number of processes.
pub type FileCoordinator = StoredCoordinator;

/// Error of opening a coordinator in a folder.
#[derive(Debug, thiserror::Error)]
pub enum FileCoordinatorError {
    /// The caller is outside of a tokio runtime.
    #[error("the coordinator must be opened within a tokio runtime")]
    NoRuntime,
    /// The file store cannot be opened.
    #[error(transparent)]
    Store(#[from] FileOpenError),
    /// The configuration is invalid, or the content of the store cannot be used.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorOpenError),
}

impl FileCoordinator {
    /// Opens a folder, and sets up the store if it is empty.
    pub async fn in_folder(folder: impl AsRef<Path>) -> Result<Self, FileCoordinatorError> {
        let env = TokioEnv::current().ok_or(FileCoordinatorError::NoRuntime)?;
        let store = FileStore::open(folder, FileOptions::default())?;
        Ok(Self::open(store, env, Keyspace::default(), EngineConfig::on_one_machine()).await?)
    }
}

/// The run protocol on an etcd cluster.
#[cfg(feature = "etcd")]
pub type AsyncEtcdCoordinator = StoredCoordinator;

/// The run protocol on an etcd cluster, for blocking callers.
#[cfg(feature = "etcd")]
pub type EtcdCoordinator = Blocking<AsyncEtcdCoordinator>;

/// Error of opening a coordinator on etcd.
#[cfg(feature = "etcd")]
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// The caller is outside of a tokio runtime.
    #[error("the coordinator must be opened within a tokio runtime")]
    NoRuntime,
    /// The cluster does not answer, or rejects the client.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The configuration is invalid, or the content of the store cannot be used.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorOpenError),
}

#[cfg(feature = "etcd")]
impl AsyncEtcdCoordinator {
    /// Connects to a cluster, and sets up the store if it is empty. All keys begin with the
    /// namespace of the options.
    pub async fn on_etcd(options: EtcdOptions, config: EngineConfig) -> Result<Self, EtcdError> {
        let env = TokioEnv::current().ok_or(EtcdError::NoRuntime)?;
        let store = EtcdStore::connect(options).await?;
        Ok(Self::open(store, env, Keyspace::bare(), config).await?)
    }
}

#[cfg(feature = "etcd")]
impl EtcdCoordinator {
    /// Connects to a cluster like [`AsyncEtcdCoordinator::on_etcd`], with a runtime of its own.
    pub fn on_etcd(
        options: EtcdOptions,
        config: EngineConfig,
    ) -> Result<Self, BlockingError<EtcdError>> {
        Self::open(AsyncEtcdCoordinator::on_etcd(options, config))
    }
}
