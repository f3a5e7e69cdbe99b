//! Which store, and the coordinator on it.

use shardwright_engine::keyspace::Keyspace;
pub(crate) use shardwright_jobs::Coordinator;
pub(crate) use shardwright_store::{AnyStore, StoreAddress};

use crate::arguments::etcd::{check_access, flags_of};

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Creates what is missing.
    Write,
    /// Fails if there is nothing.
    Read,
}

/// Opens what an address names, for a command.
pub(crate) trait OpenStore {
    /// The flags by which a child process opens the same store.
    fn flags(&self) -> Vec<String>;

    /// Opens the coordinator of runs on the store.
    async fn open(&self, mode: OpenMode) -> anyhow::Result<Coordinator>;

    /// Opens the store, and returns what keys begin with there. One that is only looked at must be
    /// there already. `what` it is opened for is named if it is not. On etcd all keys begin with
    /// the namespace, if there is one.
    async fn connect_for(
        &self,
        mode: OpenMode,
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

    async fn open(&self, mode: OpenMode) -> anyhow::Result<Coordinator> {
        let (store, keys) = self.connect_for(mode, "runs", None).await?;
        shardwright_jobs::open_on(store, keys, self.is_shared()).await
    }

    async fn connect_for(
        &self,
        mode: OpenMode,
        what: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<(AnyStore, Keyspace)> {
        if let Some(folder) = self.folder()
            && mode == OpenMode::Read
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
