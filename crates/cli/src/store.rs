//! Opens the store that the arguments name, and the coordinator on it.

use shardwright_engine::keyspace::Keyspace;
pub(crate) use shardwright_jobs::Coordinator;
pub(crate) use shardwright_store::{AnyStore, StoreAddress, TrustedFolders};

use crate::arguments::etcd::{check_access, flags_of};

/// Whether opening may create a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenMode {
    /// Creates what is missing.
    Write,
    /// Fails if the store does not exist.
    Read,
}

/// Opens stores by their addresses.
pub(crate) trait OpenStore {
    /// The flags by which a child process opens the same store.
    fn flags(&self) -> Vec<String>;

    /// Opens the coordinator of runs on the store.
    async fn open(&self, mode: OpenMode) -> anyhow::Result<Coordinator>;

    /// Opens the store, and returns it with the keyspace for our keys. If the store does not
    /// exist, the error names `what` was expected there. On etcd, all keys begin with `namespace`.
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
            && !self.exists()
        {
            let folder = folder.display();
            anyhow::bail!("no {what} in {folder}; use --store URL to name another store");
        }
        if let Self::Etcd { members, access } = self {
            check_access(access, members)?;
        }
        Ok((self.connect(namespace).await?, Keyspace::of_store(self, namespace)))
    }
}
