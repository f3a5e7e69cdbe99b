use std::path::Path;

use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::setup::StoreOpenError;
use shardwright_store::file::{self, FileOptions, FileStore};

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
    Store(#[from] file::FileOpenError),
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
