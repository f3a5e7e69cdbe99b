use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::setup::StoreOpenError;
use shardwright_store::StoreError;
use shardwright_store::etcd::{EtcdOptions, EtcdStore};

use crate::config::EngineConfig;
use crate::coordinator::StoredCoordinator;
use crate::world::blocking::{Blocking, BlockingError};

/// The run protocol on an etcd cluster.
pub type AsyncEtcdCoordinator = StoredCoordinator;

/// The run protocol on an etcd cluster, for callers that do not wait.
pub type EtcdCoordinator = Blocking<AsyncEtcdCoordinator>;

/// Why a cluster cannot be used.
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

impl AsyncEtcdCoordinator {
    /// Connects to a cluster, and sets it up if there is nothing of ours in it. All keys begin
    /// with the namespace of the options.
    pub async fn on_etcd(options: EtcdOptions, config: EngineConfig) -> Result<Self, EtcdError> {
        let env = TokioEnv::current().ok_or(EtcdError::NoRuntime)?;
        let store = EtcdStore::connect(options).await?;
        Ok(Self::open(store, env, Keyspace::bare(), config).await?)
    }
}

impl EtcdCoordinator {
    /// Connects to a cluster, like [`AsyncEtcdCoordinator::on_etcd`], with a runtime of its own.
    pub fn on_etcd(
        options: EtcdOptions,
        config: EngineConfig,
    ) -> Result<Self, BlockingError<EtcdError>> {
        Self::open(AsyncEtcdCoordinator::on_etcd(options, config))
    }
}
