//! Under which key each record of a run is stored.
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
//! What is under `view` is all that somebody who waits for work has to watch, and a checkpoint
//! writes none of it.
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

    /// The key of this keyspace that says what `key` says.
    #[must_use]
    pub fn key(&self, key: &StoreKey) -> Key {
        key.in_keyspace(&self.keyspace)
    }

    /// What a key says, if it is one of this keyspace.
    #[must_use]
    pub fn parse(&self, key: &Key) -> Option<StoreKey> {
        parse::parse(self.keyspace.strip(key)?)
    }
}

/// Each key by its name.
impl RunKeys {
    /// What is reserved in all.
    #[must_use]
    pub fn quota_total(&self) -> Key {
        self.key(&StoreKey::QuotaTotal)
    }

    /// What a tenant has reserved.
    #[must_use]
    pub fn quota_tenant(&self, tenant: TenantId) -> Key {
        self.key(&StoreKey::QuotaTenant(tenant))
    }

    /// A run, apart from its manifest.
    #[must_use]
    pub fn run(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Run(tenant, run))
    }

    /// The root shards of a run.
    #[must_use]
    pub fn manifest(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Manifest(tenant, run))
    }

    /// How many shards a run has.
    #[must_use]
    pub fn count(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Count(tenant, run))
    }

    /// A registration that is under way.
    #[must_use]
    pub fn stage(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Stage(tenant, run))
    }

    /// Up to where a run was told to be done.
    #[must_use]
    pub fn watermark(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Watermark(tenant, run))
    }

    /// What the holder of a shard thinks of the work that it has left.
    #[must_use]
    pub fn estimate(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Estimate(tenant, shard))
    }

    /// To which run a name points.
    #[must_use]
    pub fn name(&self, tenant: TenantId, name: RunName) -> Key {
        self.key(&StoreKey::Name(tenant, name))
    }

    /// What a run is for.
    #[must_use]
    pub fn purpose(&self, tenant: TenantId, run: RunId) -> Key {
        self.key(&StoreKey::Purpose(tenant, run))
    }

    /// What a shard is.
    #[must_use]
    pub fn definition(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Shard(tenant, shard, ShardPart::Definition))
    }

    /// Where a shard stands.
    #[must_use]
    pub fn progress(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.key(&StoreKey::Shard(tenant, shard, ShardPart::Progress))
    }

    /// What operations on a run's shards need to know of the run.
    #[must_use]
    pub fn gate(&self, tenant: TenantId, run: RunId) -> Key {
        self.view_key(tenant, run, ViewKey::Gate)
    }

    /// That a shard could be claimed.
    #[must_use]
    pub fn open(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::Open(shard.shard))
    }

    /// Who owns a shard.
    #[must_use]
    pub fn owner(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::Owner(shard.shard))
    }

    /// That a worker found nothing to do.
    #[must_use]
    pub fn waiting(&self, tenant: TenantId, run: RunId, worker: WorkerId) -> Key {
        self.view_key(tenant, run, ViewKey::Waiting(worker))
    }

    /// What has been asked of a shard's holder.
    #[must_use]
    pub fn ask(&self, tenant: TenantId, shard: ShardKey) -> Key {
        self.view_key(tenant, shard.run, ViewKey::Ask(shard.shard))
    }

    /// Of which shard a worker has asked a part.
    #[must_use]
    pub fn asker(&self, tenant: TenantId, run: RunId, worker: WorkerId) -> Key {
        self.view_key(tenant, run, ViewKey::Asker(worker))
    }

    /// Something that is watched of a run.
    #[must_use]
    pub fn view_key(&self, tenant: TenantId, run: RunId, key: ViewKey) -> Key {
        self.key(&StoreKey::View(tenant, run, key))
    }
}

/// Keys that belong together.
impl RunKeys {
    /// The runs of all tenants.
    #[must_use]
    pub fn runs(&self) -> StoreRange {
        self.keyspace.beginning(&[Text("run/")])
    }

    /// The runs of a tenant.
    #[must_use]
    pub fn runs_of(&self, tenant: TenantId) -> StoreRange {
        self.keyspace.beginning(&[Text("run/"), Tenant(&tenant), Text("/")])
    }

    /// Both records of every shard of a run: by shard, and of each the definition first.
    #[must_use]
    pub fn shards(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("shard/", tenant, run)
    }

    /// Everything that is watched of a run.
    #[must_use]
    pub fn view(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("view/", tenant, run)
    }

    /// What the holders of a run's shards told.
    #[must_use]
    pub fn estimates(&self, tenant: TenantId, run: RunId) -> StoreRange {
        self.of_run("estimate/", tenant, run)
    }

    /// What the runs of a tenant are for.
    #[must_use]
    pub fn purposes(&self, tenant: TenantId) -> StoreRange {
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
