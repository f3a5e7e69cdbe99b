//! A commit as bugs see it.

use bytes::Bytes;
use shardwright_contracts::ShardKey;
use shardwright_runs::keys::{RunKeys, ShardPart, StoreKey, ViewKey};
use shardwright_store::{Commit, Write};

use super::tamper;

/// The properties of a commit by which bugs choose it.
pub(super) struct Draft<'a> {
    keys: &'a RunKeys,
    pub(super) commit: &'a Commit,
    /// The shard whose progress it compares.
    pub(super) own: Option<ShardKey>,
    /// Whether it creates other shards.
    pub(super) is_split: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(keys: &'a RunKeys, commit: &'a Commit) -> Self {
        let own = commit.expectations().iter().find_map(|it| match keys.parse(&it.key) {
            Some(StoreKey::Shard(_, key, ShardPart::Progress)) => Some(key),
            _ => None,
        });
        let is_split = own.is_some()
            && commit.writes().iter().any(|write| match keys.parse(write.key()) {
                Some(StoreKey::Shard(_, key, _)) => Some(key) != own,
                _ => false,
            });
        Self { keys, commit, own, is_split }
    }

    pub(super) fn writes(&self, is: impl Fn(StoreKey) -> bool) -> bool {
        let mut writes = self.commit.writes().iter();
        writes.any(|write| self.keys.parse(write.key()).is_some_and(&is))
    }

    pub(super) fn puts(&self, is: impl Fn(StoreKey) -> bool) -> bool {
        let mut puts = self.commit.writes().iter().filter(|it| matches!(it, Write::Put { .. }));
        puts.any(|write| self.keys.parse(write.key()).is_some_and(&is))
    }

    pub(super) fn expects(&self, is: impl Fn(StoreKey) -> bool) -> bool {
        let mut expected = self.commit.expectations().iter();
        expected.any(|it| self.keys.parse(&it.key).is_some_and(&is))
    }

    pub(super) fn uncompared(&self, is: impl Fn(StoreKey) -> bool) -> Option<Commit> {
        tamper::uncompared(self.commit, |key| self.keys.parse(key).is_some_and(&is))
    }

    /// The commit without some of its writes.
    pub(super) fn without(&self, is: impl Fn(StoreKey, &Write) -> bool) -> Option<Commit> {
        let is = |write: &Write| self.keys.parse(write.key()).is_some_and(|key| is(key, write));
        tamper::rewritten(self.commit, |write| (!is(write)).then(|| write.clone()))
    }

    /// The commit with some writes bound to no session.
    pub(super) fn unbound(&self, is: impl Fn(StoreKey) -> bool) -> Option<Commit> {
        let is = |write: &Write| self.keys.parse(write.key()).is_some_and(&is);
        tamper::rewritten(self.commit, |write| {
            Some(if is(write) { tamper::unbound(write) } else { write.clone() })
        })
    }

    /// The commit with other values under some keys.
    pub(super) fn with_values(
        &self,
        change: impl Fn(StoreKey, &Bytes) -> Option<Bytes>,
    ) -> Option<Commit> {
        tamper::rewritten(self.commit, |write| {
            let Write::Put { key, value, session } = write else { return Some(write.clone()) };
            let changed = self.keys.parse(key).and_then(|place| change(place, value));
            let value = changed.unwrap_or_else(|| value.clone());
            Some(Write::Put { key: key.clone(), value, session: *session })
        })
    }
}

pub(super) const fn is_progress(key: StoreKey) -> bool {
    matches!(key, StoreKey::Shard(_, _, ShardPart::Progress))
}

pub(super) const fn is_definition(key: StoreKey) -> bool {
    matches!(key, StoreKey::Shard(_, _, ShardPart::Definition))
}

pub(super) const fn is_gate(key: StoreKey) -> bool {
    matches!(key, StoreKey::View(_, _, ViewKey::Gate))
}

pub(super) const fn is_owner(key: StoreKey) -> bool {
    matches!(key, StoreKey::View(_, _, ViewKey::Owner(_)))
}

pub(super) const fn is_quota(key: StoreKey) -> bool {
    matches!(key, StoreKey::QuotaTenant(_) | StoreKey::QuotaTotal)
}

pub(super) const fn is_counter(key: StoreKey) -> bool {
    is_quota(key) || matches!(key, StoreKey::Count(..))
}

pub(super) const fn is_run(key: StoreKey) -> bool {
    matches!(key, StoreKey::Run(..))
}

pub(super) const fn is_watermark(key: StoreKey) -> bool {
    matches!(key, StoreKey::Watermark(..))
}
