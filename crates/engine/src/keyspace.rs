//! Under which key each record is stored.
//!
//! Keys are text that a person can read in the store's own tools: parts between slashes, ids as
//! hex digits of fixed width, so that the order of keys is the order of ids. All begin with the
//! keyspace's prefix, which lets several systems share a store.
//!
//! | key | record |
//! |---|---|
//! | `meta/format`, `meta/incarnation`, `meta/clock` | [`Format`], [`Incarnation`], [`ClockMark`] |
//! | `quota/total`, `quota/tenant/<tenant>` | [`Quota`] |
//! | `run/<tenant>/<run>` | [`Run`] |
//! | `manifest/<tenant>/<run>` | [`Manifest`] |
//! | `count/<tenant>/<run>` | [`Count`] |
//! | `stage/<tenant>/<run>` | [`Stage`] |
//! | `watermark/<tenant>/<run>` | [`Watermark`] |
//! | `estimate/<tenant>/<run>/<shard>` | [`Estimate`] |
//! | `name/<tenant>/<name>` | [`Named`] |
//! | `purpose/<tenant>/<run>` | [`Purpose`] |
//! | `shard/<tenant>/<run>/<shard>/definition` | [`Definition`] |
//! | `shard/<tenant>/<run>/<shard>/progress` | [`Progress`] |
//! | `view/<tenant>/<run>/gate` | [`Gate`] |
//! | `view/<tenant>/<run>/open/<shard>` | [`OpenShard`] |
//! | `view/<tenant>/<run>/owner/<shard>` | [`Binding`] |
//! | `view/<tenant>/<run>/waiting/<worker>` | [`Waiting`] |
//! | `view/<tenant>/<run>/ask/<shard>` | [`SplitAsk`] |
//! | `view/<tenant>/<run>/asker/<worker>` | [`Asker`] |
//!
//! What begins with `cluster/` belongs to clusters: see [`ClusterKeys`].
//!
//! What is under `view` is all that somebody who waits for work has to watch, and a checkpoint
//! writes none of it.
//!
//! [`Asker`]: crate::codec::Asker
//! [`Binding`]: crate::codec::Binding
//! [`ClockMark`]: crate::codec::ClockMark
//! [`Count`]: crate::codec::Count
//! [`Definition`]: crate::codec::Definition
//! [`Estimate`]: crate::codec::Estimate
//! [`Format`]: crate::codec::Format
//! [`Gate`]: crate::codec::Gate
//! [`Incarnation`]: crate::codec::Incarnation
//! [`Manifest`]: crate::codec::Manifest
//! [`Named`]: crate::codec::Named
//! [`OpenShard`]: crate::codec::OpenShard
//! [`Progress`]: crate::codec::Progress
//! [`Purpose`]: crate::codec::Purpose
//! [`Quota`]: crate::codec::Quota
//! [`Run`]: crate::codec::Run
//! [`SplitAsk`]: crate::codec::SplitAsk
//! [`Stage`]: crate::codec::Stage
//! [`Waiting`]: crate::codec::Waiting
//! [`Watermark`]: crate::codec::Watermark

mod cluster;
mod keys;
mod parse;
mod part;
mod prefix;
mod ranges;
mod store_key;

use std::sync::Arc;

pub(crate) use cluster::escaped;
pub use cluster::{ClusterKey, ClusterKeys, ClusterName, ClusterNameError};
pub use prefix::PrefixError;
use shardwright_store::Key;
pub use store_key::{ShardPart, StoreKey, ViewKey};

/// The keys of one system within a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    prefix: Arc<str>,
}

impl Default for Keyspace {
    /// The keys that begin with `shardwright/`.
    fn default() -> Self {
        Self { prefix: "shardwright/".into() }
    }
}

impl Keyspace {
    /// Longest prefix, in bytes.
    pub const PREFIX_BYTES_MAX: usize = 128;
    /// Longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = Self::PREFIX_BYTES_MAX + 115;

    /// The keys that begin with `prefix`: nothing, or letters, digits, `-`, `_`, `.` and `/` with
    /// a `/` at the end.
    ///
    /// Systems that share a store need prefixes of which none begins with another.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        prefix::check(prefix)?;
        Ok(Self { prefix: prefix.into() })
    }

    /// The keys without a prefix, for a store of one's own.
    #[must_use]
    pub fn bare() -> Self {
        Self { prefix: "".into() }
    }

    /// What all keys begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of this keyspace that says what `key` says.
    #[must_use]
    pub fn key(&self, key: &StoreKey) -> Key {
        keys::key(&self.prefix, key)
    }

    /// What a key says, if it is one of this keyspace.
    #[must_use]
    pub fn parse(&self, key: &Key) -> Option<StoreKey> {
        parse::parse(key.as_bytes().strip_prefix(self.prefix.as_bytes())?)
    }
}

#[cfg(test)]
mod tests;
