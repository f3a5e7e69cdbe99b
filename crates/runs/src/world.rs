//! Coordinators in a folder, on etcd, and for callers that block.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this module may use the real world"
)]

mod blocking;

use std::path::Path;

use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::setup::StoreOpenError;
#[cfg(feature = "etcd")]
use shardwright_store::StoreError;
#[cfg(feature = "etcd")]
use shardwright_store::etcd::{EtcdOptions, EtcdStore};
use shardwright_store::file::{FileOpenError, FileOptions, FileStore};

pub use self::blocking::{Blocking, BlockingError};
use crate::config::EngineConfig;
use crate::coordinator::StoredCoordinator;

/// The run protocol in a folder of this machine, for any number of processes.
pub type FileCoordinator = StoredCoordinator;

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileCoordinatorError {
    /// There is no tokio runtime around the caller.
    #[error("a coordinator needs a tokio runtime around it")]
    NoRuntime,
    /// The store in it cannot be opened.
    #[error(transparent)]
    Store(#[from] FileOpenError),
    /// What is in the store cannot be used.
    #[error(transparent)]
    Coordinator(#[from] StoreOpenError),
}

impl FileCoordinator {
    /// Opens a folder, and sets it up if there is nothing in it.
    pub async fn in_folder(folder: impl AsRef<Path>) -> Result<Self, FileCoordinatorError> {
        let env = TokioEnv::current().ok_or(FileCoordinatorError::NoRuntime)?;
        let store = FileStore::open(folder, FileOptions::default())?;
        Ok(Self::open(store, env, Keyspace::default(), EngineConfig::on_one_machine()).await?)
    }
}

/// The run protocol on an etcd cluster.
#[cfg(feature = "etcd")]
pub type AsyncEtcdCoordinator = StoredCoordinator;

/// The run protocol on an etcd cluster, for callers that do not wait.
#[cfg(feature = "etcd")]
pub type EtcdCoordinator = Blocking<AsyncEtcdCoordinator>;

/// Why a cluster cannot be used.
#[cfg(feature = "etcd")]
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// There is no tokio runtime around the caller.
    #[error("a coordinator needs a tokio runtime around it")]
    NoRuntime,
    /// It does not answer, or not us.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is stored there cannot be used.
    #[error(transparent)]
    Coordinator(#[from] StoreOpenError),
}

#[cfg(feature = "etcd")]
impl AsyncEtcdCoordinator {
    /// Connects to a cluster, and sets it up if there is nothing of ours in it. All keys begin
    /// with the namespace of the options.
    pub async fn on_etcd(options: EtcdOptions, config: EngineConfig) -> Result<Self, EtcdError> {
        let env = TokioEnv::current().ok_or(EtcdError::NoRuntime)?;
        let store = EtcdStore::connect(options).await?;
        Ok(Self::open(store, env, Keyspace::bare(), config).await?)
    }
}

#[cfg(feature = "etcd")]
impl EtcdCoordinator {
    /// Connects to a cluster, like [`AsyncEtcdCoordinator::on_etcd`], with a runtime of its own.
    pub fn on_etcd(
        options: EtcdOptions,
        config: EngineConfig,
    ) -> Result<Self, BlockingError<EtcdError>> {
        Self::open(AsyncEtcdCoordinator::on_etcd(options, config))
    }
}
