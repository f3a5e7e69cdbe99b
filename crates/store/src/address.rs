//! Store URLs, and how to open the store that one names.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::any::AnyStore;
use crate::clock::MachineClock;
#[cfg(feature = "etcd")]
use crate::error::StoreError;
#[cfg(feature = "etcd")]
use crate::etcd::{EtcdAccess, EtcdAccessError, EtcdStore};
use crate::file::{self, FileOptions, FileStore};
use crate::folder::{TrustedFolders, is_writable_by_others};
use crate::memory::MemoryStore;

/// The folder of this machine if the store is elsewhere.
const STATE_FOLDER: &str = ".shardwright";

/// The address of a store. The default is a file store in `.shardwright`.
///
/// | text | store |
/// |---|---|
/// | `file:FOLDER` | SQLite in a folder of this machine |
/// | `memory:` | this process only |
/// | `etcd://HOST:PORT,…` | an etcd cluster |
/// | `etcds://HOST:PORT,…` | an etcd cluster, over TLS |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// A folder of this machine.
    File {
        /// The folder.
        folder: PathBuf,
        /// Folders whose state is used even if another user owns it.
        trusted: TrustedFolders,
    },
    /// The memory of this process.
    Memory,
    /// An etcd cluster.
    #[cfg(feature = "etcd")]
    Etcd {
        /// Its members, each as `http://host:port` or `https://host:port`.
        members: Vec<String>,
        /// How to authenticate, and how long to wait.
        access: EtcdAccess,
    },
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The folder cannot be used.
    #[error(transparent)]
    File(#[from] file::FileOpenError),
    /// The options for etcd cannot be used.
    #[cfg(feature = "etcd")]
    #[error(transparent)]
    Access(#[from] EtcdAccessError),
    /// The etcd cluster does not answer, or rejects this client.
    #[cfg(feature = "etcd")]
    #[error("etcd at {members}")]
    Etcd {
        /// Its members.
        members: String,
        /// The failure.
        source: StoreError,
    },
}

impl StoreAddress {
    /// Opens the store. On etcd all keys begin with the namespace, or with `shardwright/` by
    /// default. Other stores have no namespace.
    #[cfg_attr(not(feature = "etcd"), allow(clippy::unused_async, reason = "etcd connects"))]
    pub async fn connect(&self, namespace: Option<&str>) -> Result<AnyStore, ConnectError> {
        #[cfg(not(feature = "etcd"))]
        let _unused = namespace;
        match self {
            Self::File { folder, trusted } => {
                let options = FileOptions { trusted: trusted.clone(), ..FileOptions::default() };
                Ok(AnyStore::new(FileStore::open(folder, options)?))
            }
            Self::Memory => Ok(AnyStore::new(MemoryStore::new(Arc::new(MachineClock)))),
            #[cfg(feature = "etcd")]
            Self::Etcd { members, access } => {
                let mut options = access.options(members)?;
                if let Some(namespace) = namespace {
                    options = options.namespace(namespace.to_owned());
                }
                let connected = EtcdStore::connect(options).await;
                let failed = |source| ConnectError::Etcd { members: members.join(", "), source };
                connected.map(AnyStore::new).map_err(failed)
            }
        }
    }

    /// A store in a folder of this machine. State of other users is refused.
    pub fn file(folder: impl Into<PathBuf>) -> Self {
        Self::File { folder: folder.into(), trusted: TrustedFolders::default() }
    }

    /// Trusts folders of other users. Other addresses stay unchanged.
    #[must_use]
    pub fn with_trusted(mut self, given: TrustedFolders) -> Self {
        if let Self::File { trusted, .. } = &mut self {
            *trusted = given;
        }
        self
    }

    /// Sets the access options of an etcd cluster. Other addresses stay unchanged.
    #[cfg(feature = "etcd")]
    #[must_use]
    pub fn with_access(mut self, given: EtcdAccess) -> Self {
        if let Self::Etcd { access, .. } = &mut self {
            *access = given;
        }
        self
    }

    /// The folder that holds the state, for a file store.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::File { folder, .. } => Some(folder),
            _ => None,
        }
    }

    /// The local folder for files that belong to runs and are not in the store.
    #[must_use]
    pub fn state_folder(&self) -> &Path {
        self.folder().unwrap_or(Path::new(STATE_FOLDER))
    }

    /// Whether a file store was created in the folder. Other stores always exist.
    #[must_use]
    pub fn exists(&self) -> bool {
        // A link without a target counts: opening it reports the error.
        self.folder().is_none_or(|folder| folder.join(file::DATABASE).symlink_metadata().is_ok())
    }

    /// Whether other machines can use the store.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        !matches!(self, Self::File { .. } | Self::Memory)
    }

    /// Whether other users can write the store.
    #[must_use]
    pub fn is_writable_by_others(&self) -> bool {
        self.folder().map_or(self.is_shared(), is_writable_by_others)
    }
}

impl Default for StoreAddress {
    fn default() -> Self {
        Self::file(STATE_FOLDER)
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { folder, .. } => write!(f, "file:{}", folder.display()),
            Self::Memory => f.write_str("memory:"),
            #[cfg(feature = "etcd")]
            Self::Etcd { members, .. } => {
                let host = |member: &str| {
                    let plain = member.strip_prefix("http://");
                    plain.or(member.strip_prefix("https://")).unwrap_or(member).to_owned()
                };
                let hosts: Vec<String> = members.iter().map(|member| host(member)).collect();
                let secure = members.iter().any(|member| member.starts_with("https://"));
                let scheme = if secure { "etcds" } else { "etcd" };
                write!(f, "{scheme}://{}", hosts.join(","))
            }
        }
    }
}

impl FromStr for StoreAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(folder) = text.strip_prefix("file:") {
            if folder.is_empty() {
                return Err("`file:` needs a folder, like `file:.shardwright`".to_owned());
            }
            return Ok(Self::file(folder));
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
            // The text may contain a password. Then the error does not repeat it.
            let hides = text.contains(['@', '?', '#']);
            let shown = if hides { "the store URL" } else { &format!("store URL `{text}`") };
            return Err(format!("{shown} has an unknown scheme; use {known}"));
        };
        if members.contains(['@', '?', '#']) {
            return Err("a store URL names hosts; pass user and password as options".to_owned());
        }
        let members: Vec<&str> = members.trim_end_matches('/').split(',').collect();
        if members.iter().any(|member| member.is_empty()) {
            return Err(format!("`{text}` names no host"));
        }
        etcd(members.iter().map(|member| format!("{scheme}://{member}")).collect())
    }
}

#[cfg(feature = "etcd")]
fn etcd(members: Vec<String>) -> Result<StoreAddress, String> {
    Ok(StoreAddress::Etcd { members, access: EtcdAccess::default() })
}

#[cfg(not(feature = "etcd"))]
fn etcd(members: Vec<String>) -> Result<StoreAddress, String> {
    Err(format!("this build has no etcd store, so {} cannot be used", members.join(", ")))
}

#[cfg(all(test, feature = "etcd"))]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_store() {
        let etcd = |members: &[&str]| {
            let members = members.iter().map(|&member| member.to_owned()).collect();
            StoreAddress::Etcd { members, access: EtcdAccess::default() }
        };
        for (text, expected) in [
            ("file:a/b", StoreAddress::file("a/b")),
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

    #[test]
    fn a_password_in_a_url_is_refused_and_not_repeated() {
        for url in ["etcd://me:SECRET@a:1", "etcd://a:1?p=SECRET", "http://me:SECRET@a:1"] {
            let refused = url.parse::<StoreAddress>().unwrap_err();
            assert!(!refused.contains("SECRET"), "{refused}");
        }
        let refused = "http://me:SECRET@a:1".parse::<StoreAddress>().unwrap_err();
        assert!(refused.starts_with("the store URL has an unknown scheme; use "), "{refused}");
        let refused = "redis://a".parse::<StoreAddress>().unwrap_err();
        assert!(refused.starts_with("store URL `redis://a` has an unknown scheme"), "{refused}");
    }

    #[tokio::test]
    async fn a_file_url_opens_a_store() {
        use crate::store::Store;
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file:{}", folder.path().display()).parse::<StoreAddress>().unwrap();
        let store = address.connect(None).await.unwrap();
        let again = AnyStore::new(store.clone());
        assert_eq!(again.limits(), store.limits());
        assert!(address.exists());
    }
}
