//! Which store, and the coordinator on it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::{EngineConfig, Retention, Sessions, StoredCoordinator, TokioEnv};
use shardwright_store::etcd::EtcdStore;
use shardwright_store::file::{FileOptions, FileStore};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{
    Changes, Commit, CommitError, Key, KeyRange, MachineClock, Page, Revision, ScanError, ScanPage,
    Session, SessionError, SessionId, Snapshot, Store, StoreError, StoreLimits, WatchError,
};

use crate::arguments::etcd::EtcdAccess;

/// Where this machine keeps things if the store is elsewhere.
const STATE_FOLDER: &str = ".shardwright";
/// How long a session outlives its last sign of life.
const SESSION: Duration = Duration::from_secs(10);

/// The run protocol on whichever store was chosen.
pub(crate) type Coordinator = StoredCoordinator<AnyStore, TokioEnv>;

/// Where runs are kept, as it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    File(PathBuf),
    Memory,
    Etcd { members: Vec<String>, access: EtcdAccess },
}

impl Default for StoreAddress {
    fn default() -> Self {
        Self::File(STATE_FOLDER.into())
    }
}

/// As it can be said.
impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Etcd { members, .. } = self else {
            return match self.folder() {
                Some(folder) => write!(f, "file:{}", folder.display()),
                None => f.write_str("memory:"),
            };
        };
        let hosts = members.iter().map(|member| {
            member.strip_prefix("https://").or(member.strip_prefix("http://")).unwrap_or(member)
        });
        let secure = members.iter().any(|member| member.starts_with("https://"));
        let scheme = if secure { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}", hosts.collect::<Vec<_>>().join(","))
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(folder) = text.strip_prefix("file:") {
            if folder.is_empty() {
                return Err("`file:` needs a folder, like `file:.shardwright`".to_owned());
            }
            return Ok(Self::File(folder.into()));
        }
        if text == "memory:" {
            return Ok(Self::Memory);
        }
        let Some((scheme, members)) = text
            .strip_prefix("etcd://")
            .map(|members| ("http", members))
            .or_else(|| text.strip_prefix("etcds://").map(|members| ("https", members)))
        else {
            let known = "`file:FOLDER`, `memory:`, `etcd://HOST:PORT` or `etcds://HOST:PORT`";
            return Err(format!("`{text}` is no store; there are {known}"));
        };
        let members: Vec<&str> = members.trim_end_matches('/').split(',').collect();
        if members.iter().any(|member| member.contains('@')) {
            // Not repeated: it may hold a password.
            let flags = "`--etcd-user` and `--etcd-password-file`";
            return Err(format!("an address names hosts; who we are is said with {flags}"));
        }
        if members.iter().any(|member| member.is_empty()) {
            return Err(format!("`{text}` names no host"));
        }
        let members = members.iter().map(|member| format!("{scheme}://{member}")).collect();
        Ok(Self::Etcd { members, access: EtcdAccess::default() })
    }
}

impl StoreAddress {
    /// The same store, if it is an etcd with this access to it.
    pub(crate) fn with_access(mut self, given: EtcdAccess) -> Self {
        if let Self::Etcd { access, .. } = &mut self {
            *access = given;
        }
        self
    }

    /// How another process is told of the store.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec!["--store".to_owned(), self.to_string()];
        if let Self::Etcd { access, .. } = self {
            flags.extend(access.flags());
        }
        flags
    }

    /// The folder of this machine that holds the state, if one does.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match self {
            Self::File(folder) => Some(folder),
            Self::Memory | Self::Etcd { .. } => None,
        }
    }

    /// The folder of this machine for what belongs to runs but is not in the store.
    pub(crate) fn state_folder(&self) -> &Path {
        self.folder().unwrap_or(Path::new(STATE_FOLDER))
    }

    /// Whether other machines may work on it as well.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Etcd { .. })
    }

    /// Opens the coordinator of runs on the store.
    pub(crate) async fn open(&self, purpose: Purpose) -> anyhow::Result<Coordinator> {
        let env = TokioEnv::current().context("there is no runtime")?;
        let (store, keys) = self.connect(purpose, "runs", None).await?;
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

    /// Opens the store, and says what keys begin with there. One that is only looked at must be
    /// there already. `what` it is opened for is told if it is not. On etcd all keys begin with
    /// the namespace, if there is one.
    pub(crate) async fn connect(
        &self,
        purpose: Purpose,
        what: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<(AnyStore, Keyspace)> {
        Ok(match self {
            Self::File(folder) => {
                if purpose == Purpose::Look && !folder.is_dir() {
                    let folder = folder.display();
                    anyhow::bail!(
                        "there are no {what} in {folder}; say --store if they are elsewhere"
                    );
                }
                let store = FileStore::open(folder, FileOptions::default())?;
                (AnyStore::File(store), Keyspace::default())
            }
            Self::Memory => {
                let store = MemoryStore::new(Arc::new(MachineClock));
                (AnyStore::Memory(store), Keyspace::default())
            }
            Self::Etcd { members, access } => {
                let options = access.options(members)?;
                // A namespace of one's own is one that others see, too: ours begin as usual in it.
                let (options, keys) = match namespace {
                    Some(namespace) => {
                        (options.namespace(namespace.to_owned()), Keyspace::default())
                    }
                    None => (options, Keyspace::bare()),
                };
                let store = EtcdStore::connect(options).await;
                let store = store.with_context(|| format!("etcd at {}", members.join(", ")))?;
                (AnyStore::Etcd(store), keys)
            }
        })
    }
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Work,
    Look,
}

/// Whichever store was chosen.
pub(crate) enum AnyStore {
    File(FileStore),
    Memory(MemoryStore),
    Etcd(EtcdStore),
}

/// Does with whichever store it is what is said.
macro_rules! with {
    ($any:ident, $store:ident => $work:expr) => {
        match $any {
            AnyStore::File($store) => $work,
            AnyStore::Memory($store) => $work,
            AnyStore::Etcd($store) => $work,
        }
    };
}

impl Store for AnyStore {
    async fn load(&self, keys: &[Key]) -> Result<Snapshot, StoreError> {
        with!(self, store => store.load(keys).await)
    }

    async fn scan(&self, range: &KeyRange, page: Page) -> Result<ScanPage, ScanError> {
        with!(self, store => store.scan(range, page).await)
    }

    async fn commit(&self, commit: Commit) -> Result<Revision, CommitError> {
        with!(self, store => store.commit(commit).await)
    }

    async fn watch(&self, range: &KeyRange, after: Revision) -> Result<Changes, WatchError> {
        with!(self, store => store.watch(range, after).await)
    }

    async fn open_session(&self, ttl: Duration) -> Result<Session, SessionError> {
        with!(self, store => store.open_session(ttl).await)
    }

    async fn keep_alive(&self, session: SessionId) -> Result<(), SessionError> {
        with!(self, store => store.keep_alive(session).await)
    }

    async fn close_session(&self, session: SessionId) -> Result<(), SessionError> {
        with!(self, store => store.close_session(session).await)
    }

    fn limits(&self) -> StoreLimits {
        with!(self, store => store.limits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_store() {
        let etcd = |members: &[&str]| {
            let members = members.iter().map(|&member| member.to_owned()).collect();
            StoreAddress::Etcd { members, access: EtcdAccess::default() }
        };
        for (text, expected) in [
            ("file:a/b", StoreAddress::File("a/b".into())),
            ("memory:", StoreAddress::Memory),
            ("etcd://a:1", etcd(&["http://a:1"])),
            ("etcd://a:1,b:2/", etcd(&["http://a:1", "http://b:2"])),
            ("etcds://a:1", etcd(&["https://a:1"])),
        ] {
            let parsed: StoreAddress = text.parse().unwrap();
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.to_string(), text.trim_end_matches('/'));
        }
        for text in ["", "file:", "etcd://", "etcd://a,,b", "redis://a", "/tmp/x"] {
            assert!(text.parse::<StoreAddress>().is_err(), "{text}");
        }
    }
}
