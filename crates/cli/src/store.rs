//! Which store, and the coordinator on it.

use std::time::Duration;

use anyhow::Context as _;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{EngineConfig, Retention, Sessions, StoredCoordinator, TokioEnv};
pub(crate) use shardwright_store::{AnyStore, StoreAddress};

use crate::arguments::etcd::{check_access, flags_of};

/// How long a session outlives its last sign of life.
const SESSION: Duration = Duration::from_secs(10);

/// The run protocol on whichever store was chosen.
pub(crate) type Coordinator = StoredCoordinator;

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Work,
    Look,
}

/// Opens what an address names, for a command.
pub(crate) trait OpenStore {
    /// The flags by which a child process opens the same store.
    fn flags(&self) -> Vec<String>;

    /// Opens the coordinator of runs on the store.
    async fn open(&self, purpose: Purpose) -> anyhow::Result<Coordinator>;

    /// Opens the store, and returns what keys begin with there. One that is only looked at must be
    /// there already. `what` it is opened for is named if it is not. On etcd all keys begin with
    /// the namespace, if there is one.
    async fn connect_for(
        &self,
        purpose: Purpose,
        what: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<(AnyStore, Keyspace)>;
}

impl OpenStore for StoreAddress {
    fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--store".to_owned(), self.to_string()];
        if let Self::Etcd { access, .. } = self {
            flags.extend(flags_of(access));
        }
        flags
    }

    async fn open(&self, purpose: Purpose) -> anyhow::Result<Coordinator> {
        let env = TokioEnv::current().context("there is no runtime")?;
        let (store, keys) = self.connect_for(purpose, "runs", None).await?;
        let config = match self.is_shared() {
            true => EngineConfig::default(),
            false => EngineConfig::on_one_machine(),
        };
        // What served to build a run's results goes with the run, which only `gc` sees to.
        let retention = Retention::FOREVER;
        let config =
            EngineConfig { sessions: Sessions::Bound { ttl: SESSION }, retention, ..config };
        Ok(StoredCoordinator::open(store, env, keys, config).await?)
    }

    async fn connect_for(
        &self,
        purpose: Purpose,
        what: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<(AnyStore, Keyspace)> {
        if let Some(folder) = self.folder()
            && purpose == Purpose::Look
            && !folder.is_dir()
        {
            let folder = folder.display();
            anyhow::bail!("there are no {what} in {folder}; say --store if they are elsewhere");
        }
        if let Self::Etcd { members, access } = self {
            check_access(access, members)?;
        }
        let store = self.connect(namespace).await?;
        // A namespace of one's own is one that others see, too: ours begin as usual in it.
        let keys = match namespace {
            None if self.is_shared() => Keyspace::bare(),
            _ => Keyspace::default(),
        };
        Ok((store, keys))
    }
}
