//! Keys of the records of a run.
//!
//! | key | record |
//! |---|---|
//! | `quota/total`, `quota/tenant/<tenant>` | [`ReservedShardsRecord`] |
//! | `run/<tenant>/<run>` | [`RunHeadRecord`] |
//! | `manifest/<tenant>/<run>` | [`ManifestRecord`] |
//! | `count/<tenant>/<run>` | [`RunShardsRecord`] |
//! | `stage/<tenant>/<run>` | [`StageRecord`] |
//! | `watermark/<tenant>/<run>` | [`WatermarkRecord`] |
//! | `estimate/<tenant>/<run>/<shard>` | [`EstimateRecord`] |
//! | `name/<tenant>/<name>` | [`RunNameRecord`] |
//! | `purpose/<tenant>/<run>` | [`RunLabelRecord`] |
//! | `shard/<tenant>/<run>/<shard>/definition` | [`DefinitionRecord`] |
//! | `shard/<tenant>/<run>/<shard>/progress` | [`ProgressRecord`] |
//! | `view/<tenant>/<run>/gate` | [`RunStateRecord`] |
//! | `view/<tenant>/<run>/open/<shard>` | [`ClaimableRecord`] |
//! | `view/<tenant>/<run>/owner/<shard>` | [`BindingRecord`] |
//! | `view/<tenant>/<run>/waiting/<worker>` | [`WaitingWorkerRecord`] |
//! | `view/<tenant>/<run>/ask/<shard>` | [`SplitRequestRecord`] |
//! | `view/<tenant>/<run>/asker/<worker>` | [`RequesterRecord`] |
//!
//! Workers that wait for shards watch `view`. A checkpoint writes nothing there.
//!
//! [`BindingRecord`]: crate::records::BindingRecord
//! [`ClaimableRecord`]: crate::records::ClaimableRecord
//! [`DefinitionRecord`]: crate::records::DefinitionRecord
//! [`EstimateRecord`]: crate::records::EstimateRecord
//! [`ManifestRecord`]: crate::records::ManifestRecord
//! [`ProgressRecord`]: crate::records::ProgressRecord
//! [`RequesterRecord`]: crate::records::RequesterRecord
//! [`ReservedShardsRecord`]: crate::records::ReservedShardsRecord
//! [`RunHeadRecord`]: crate::records::RunHeadRecord
//! [`RunLabelRecord`]: crate::records::RunLabelRecord
//! [`RunNameRecord`]: crate::records::RunNameRecord
//! [`RunShardsRecord`]: crate::records::RunShardsRecord
//! [`RunStateRecord`]: crate::records::RunStateRecord
//! [`SplitRequestRecord`]: crate::records::SplitRequestRecord
//! [`StageRecord`]: crate::records::StageRecord
//! [`WaitingWorkerRecord`]: crate::records::WaitingWorkerRecord
//! [`WatermarkRecord`]: crate::records::WatermarkRecord

mod parse;
mod store_key;

use shardwright_contracts::{RunId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_engine::keyspace::Keyspace;
use shardwright_engine::keyspace::Part::{Id, Tenant, Text};
use shardwright_store::{Key, StoreRange};

pub use self::store_key::{ShardPart, StoreKey, ViewKey};

/// The keys of the run protocol within a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKeys {
    keyspace: Keyspace,
}

impl RunKeys {
    /// Longest key, in bytes.
    pub const KEY_BYTES_MAX: usize = Keyspace::PREFIX_BYTES_MAX + 115;

    /// The keys of runs in a keyspace.
    #[must_use]
    pub const fn new(keyspace: Keyspace) -> Self {
        Self { keyspace }
    }

    /// The keyspace.
    #[must_use]
    pub const fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Encodes a key.
    #[must_use]
    pub fn key(&self, key: &StoreKey) -> Key {
        key.in_keyspace(&self.keyspace)
    }

    /// Parses a key of this keyspace.
    #[must_use]
    pub fn parse(&self, key: &Key) -> Option<StoreKey> {
        parse::parse(self.keyspace.strip(key)?)
    }
}

/// Each key by its name.
impl RunKeys {
    /// Shards reserved by all tenants.
    #[must_use]
    pub fn quota_total(&self) -> Key {
        self.key(&StoreKey::QuotaTotal)
    }

    /// Shards reserved by a tenant.
    #[must_use]
    pub fn quota_tenant(&self, tenant: TenantId) -> Key {
        self.key(&StoreKey::QuotaTenant(tenant))
    }

    /// A run without its manifest.
    #[must_use]
    pub fn run(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Run(tenant, run))
    }

    /// The root shards of a run.
    #[must_use]
    pub fn manifest(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Manifest(tenant, run))
    }

    /// Existing and reserved shards of a run.
    #[must_use]
    pub fn count(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Count(tenant, run))
    }

    /// A registration in progress.
    #[must_use]
    pub fn stage(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Stage(tenant, run))
    }

    /// Watermark of a run.
    #[must_use]
    pub fn watermark(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Watermark(tenant, run))
    }

    /// The holder's estimate of a shard's remaining work.
    #[must_use]
    pub fn estimate(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Estimate(tenant, shard))
    }

    /// Run to which a name refers.
    #[must_use]
    pub fn name(&self, tenant: TenantId, name: RunName) -> Key {
        self.key(&StoreKey::Name(tenant, name))
    }

    /// Label of a run.
    #[must_use]
    pub fn label(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Label(tenant, run))
    }

    /// Definition of a shard.
    #[must_use]
    pub fn definition(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Shard(tenant, shard, ShardPart::Definition))
    }

    /// Progress of a shard.
    #[must_use]
    pub fn progress(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Shard(tenant, shard, ShardPart::Progress))
    }

    /// Gate of a run: the run's state, which every commit of a shard compares.
    #[must_use]
    pub fn gate(&self, tenant: TenantId, run: RunId) -> Key {
        self.view_key(tenant, run, ViewKey::Gate)
    }

    /// Marks a shard as claimable.
    #[must_use]
    pub fn open(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::Open(shard.shard))
    }

    /// Owner of a shard.
    #[must_use]
    pub fn owner(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::Owner(shard.shard))
    }

    /// A worker that waits for a shard.
    #[must_use]
    pub fn waiting(&self, tenant: TenantId, run: RunId, worker: WorkerId) -> Key {
        self.view_key(tenant, run, ViewKey::Waiting(worker))
    }

    /// Split request to the holder of a shard.
    #[must_use]
    pub fn split_request(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::SplitRequest(shard.shard))
    }

    /// Shard whose split a worker has requested.
    #[must_use]
    pub fn requester(&self, tenant: TenantId, run: RunId, worker: WorkerId) -> Key {
        self.view_key(tenant, run, ViewKey::Requester(worker))
    }

    fn view_key(&self, tenant: TenantId, run: RunId, key: ViewKey) -> Key {
        self.key(&StoreKey::View(tenant, run, key))
    }
}

/// Ranges of keys.
impl RunKeys {
    /// The runs of all tenants.
    #[must_use]
    pub fn runs(&self) -> StoreRange {
        self.keyspace.beginning(&[Text("run/")])
    }

    /// The counters of all runs.
    #[must_use]
    pub fn counts(&self) -> StoreRange {
        self.keyspace.beginning(&[Text("count/")])
    }

    /// Both records of every shard of a run, by shard, the definition first.
    #[must_use]
    pub fn shards(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("shard/", tenant, run)
    }

    /// The watched keys of a run.
    #[must_use]
    pub fn view(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("view/", tenant, run)
    }

    /// The owners of a run's shards.
    #[must_use]
    pub fn owners(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.keyspace.beginning(&[
            Text("view/"),
            Tenant(&tenant),
            Text("/"),
            Id(run.as_raw()),
            Text("/owner/"),
        ])
    }

    /// The estimates of a run.
    #[must_use]
    pub fn estimates(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("estimate/", tenant, run)
    }

    /// The labels of a tenant's runs.
    #[must_use]
    pub fn labels(&self, tenant: TenantId) -> StoreRange {
        self.keyspace.beginning(&[Text("purpose/"), Tenant(&tenant), Text("/")])
    }

    /// The names of a tenant's runs.
    #[must_use]
    pub fn names(&self, tenant: TenantId) -> StoreRange {
        self.keyspace.beginning(&[Text("name/"), Tenant(&tenant), Text("/")])
    }

    fn of_run(&self, name: &'static str, tenant: TenantId, run: RunId) -> StoreRange {
        self.keyspace.beginning(&[
            Text(name),
            Tenant(&tenant),
            Text("/"),
            Id(run.as_raw()),
            Text("/"),
        ])
    }
}

#[cfg(test)]
mod tests;
