//! Parsing of keys.

use shardwright_contracts::{RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_engine::keyspace::{MetaKey, read_id, read_tenant};
use shardwright_store::Key;

use super::{RunKeys, ShardPart, StoreKey, ViewKey};

/// Reads a key without its prefix.
pub(super) fn parse(key: &[u8]) -> Option<StoreKey> {
    let mut parts = Parts(key.split(|byte| *byte == b'/'));
    let key = match parts.next()? {
        b"meta" => return MetaKey::parse(key).map(StoreKey::Meta),
        b"quota" => match parts.next()? {
            b"total" => StoreKey::QuotaTotal,
            b"tenant" => StoreKey::QuotaTenant(parts.tenant()?),
            _ => return None,
        },
        b"run" => StoreKey::Run(parts.tenant()?, parts.run()?),
        b"manifest" => StoreKey::Manifest(parts.tenant()?, parts.run()?),
        b"count" => StoreKey::Count(parts.tenant()?, parts.run()?),
        b"stage" => StoreKey::Stage(parts.tenant()?, parts.run()?),
        b"watermark" => StoreKey::Watermark(parts.tenant()?, parts.run()?),
        b"estimate" => {
            let (tenant, run) = (parts.tenant()?, parts.run()?);
            StoreKey::Estimate(tenant, ShardKey::new(run, parts.shard()?))
        }
        b"name" => StoreKey::Name(parts.tenant()?, parts.name()?),
        b"purpose" => StoreKey::Label(parts.tenant()?, parts.run()?),
        b"shard" => {
            let (tenant, key) = (parts.tenant()?, ShardKey::new(parts.run()?, parts.shard()?));
            StoreKey::Shard(tenant, key, parts.shard_part()?)
        }
        b"view" => StoreKey::View(parts.tenant()?, parts.run()?, parts.view_key()?),
        _ => return None,
    };
    parts.next().is_none().then_some(key)
}

impl RunKeys {
    /// Parses a key of [`RunKeys::runs`].
    #[must_use]
    pub fn parse_run(&self, key: &Key) -> Option<(TenantId, RunId)> {
        match self.parse(key)? {
            StoreKey::Run(tenant, run) => Some((tenant, run)),
            _ => None,
        }
    }

    /// Parses a key of [`RunKeys::shards`].
    #[must_use]
    pub fn parse_shard(&self, key: &Key) -> Option<(TenantId, ShardKey, ShardPart)> {
        match self.parse(key)? {
            StoreKey::Shard(tenant, key, part) => Some((tenant, key, part)),
            _ => None,
        }
    }

    /// Parses a key of [`RunKeys::view`].
    #[must_use]
    pub fn parse_view(&self, key: &Key) -> Option<(TenantId, RunId, ViewKey)> {
        let key = self.keyspace.strip(key)?;
        // Called for the keys of every commit, most of which are other keys.
        match key.starts_with(b"view/").then(|| parse(key))?? {
            StoreKey::View(tenant, run, key) => Some((tenant, run, key)),
            _ => None,
        }
    }
}

/// Parts between slashes.
struct Parts<I>(I);

impl<'a, I: Iterator<Item = &'a [u8]>> Parts<I> {
    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }

    fn tenant(&mut self) -> Option<TenantId> {
        self.next().and_then(read_tenant)
    }

    fn run(&mut self) -> Option<RunId> {
        self.next().and_then(read_id).map(RunId::from_raw)
    }

    fn shard(&mut self) -> Option<ShardId> {
        self.next().and_then(read_id).map(ShardId::from_raw)
    }

    fn worker(&mut self) -> Option<WorkerId> {
        self.next().and_then(read_id).map(WorkerId::from_raw)
    }

    fn name(&mut self) -> Option<RunName> {
        let name = str::from_utf8(self.next()?).ok()?;
        RunName::new(name).ok()
    }

    fn shard_part(&mut self) -> Option<ShardPart> {
        match self.next()? {
            b"definition" => Some(ShardPart::Definition),
            b"progress" => Some(ShardPart::Progress),
            _ => None,
        }
    }

    fn view_key(&mut self) -> Option<ViewKey> {
        match self.next()? {
            b"gate" => Some(ViewKey::Gate),
            b"open" => self.shard().map(ViewKey::Open),
            b"owner" => self.shard().map(ViewKey::Owner),
            b"waiting" => self.worker().map(ViewKey::Waiting),
            b"ask" => self.shard().map(ViewKey::SplitRequest),
            b"asker" => self.worker().map(ViewKey::Requester),
            _ => None,
        }
    }
}
