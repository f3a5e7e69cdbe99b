//! The coordinator of runs on a store.

use std::time::Duration;

use anyhow::Context as _;
use shardwright_contracts::TenantId;
use shardwright_engine::TokioEnv;
use shardwright_engine::keyspace::Keyspace;
use shardwright_runs::{EngineConfig, Retention, Sessions, StoredCoordinator};
use shardwright_store::{AnyStore, StoreAddress};

/// Whose runs they are. A command line, and a library in one program, has one user.
pub const TENANT: TenantId = TenantId::from_bytes([0; TenantId::SIZE]);

/// How long a session outlives its last sign of life.
const SESSION: Duration = Duration::from_secs(10);

/// The run protocol on any store.
pub type Coordinator = StoredCoordinator;

/// Opens the coordinator of runs on the store at an address.
pub async fn open(address: &StoreAddress) -> anyhow::Result<Coordinator> {
    let keys = if address.is_shared() { Keyspace::bare() } else { Keyspace::default() };
    open_on(address.connect(None).await?, keys, address.is_shared()).await
}

/// Opens the coordinator of runs on a store that other machines share or not.
pub async fn open_on(
    store: AnyStore,
    keys: Keyspace,
    is_shared: bool,
) -> anyhow::Result<Coordinator> {
    let env = TokioEnv::current().context("there is no runtime")?;
    let config = if is_shared { EngineConfig::default() } else { EngineConfig::on_one_machine() };
    // What served to build a run's results goes with the run, which only `gc` sees to.
    let retention = Retention::FOREVER;
    let config = EngineConfig { sessions: Sessions::Bound { ttl: SESSION }, retention, ..config };
    Ok(StoredCoordinator::open(store, env, keys, config).await?)
}
