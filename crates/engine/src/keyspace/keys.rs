//! Each key by its name.

use shardwright_contracts::{RunId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_store::Key;

use super::part::Part::{Id, Tenant, Text};
use super::part::join;
use super::{Keyspace, ShardPart, StoreKey, ViewKey};

/// The layout, written once.
pub(super) fn key(prefix: &str, key: &StoreKey) -> Key {
    let of_run = |name, tenant, run: &RunId| {
        join(prefix, &[Text(name), Tenant(tenant), Text("/"), Id(run.as_raw())])
    };
    let bytes = match key {
        StoreKey::Format => join(prefix, &[Text("meta/format")]),
        StoreKey::Incarnation => join(prefix, &[Text("meta/incarnation")]),
        StoreKey::Clock => join(prefix, &[Text("meta/clock")]),
        StoreKey::QuotaTotal => join(prefix, &[Text("quota/total")]),
        StoreKey::QuotaTenant(tenant) => join(prefix, &[Text("quota/tenant/"), Tenant(tenant)]),
        StoreKey::Run(tenant, run) => of_run("run/", tenant, run),
        StoreKey::Manifest(tenant, run) => of_run("manifest/", tenant, run),
        StoreKey::Count(tenant, run) => of_run("count/", tenant, run),
        StoreKey::Stage(tenant, run) => of_run("stage/", tenant, run),
        StoreKey::Watermark(tenant, run) => of_run("watermark/", tenant, run),
        StoreKey::Estimate(tenant, ShardKey { run, shard }) => {
            let (run, shard) = (Id(run.as_raw()), Id(shard.as_raw()));
            join(prefix, &[Text("estimate/"), Tenant(tenant), Text("/"), run, Text("/"), shard])
        }
        StoreKey::Name(tenant, name) => {
            join(prefix, &[Text("name/"), Tenant(tenant), Text("/"), Text(name.as_str())])
        }
        StoreKey::Purpose(tenant, run) => of_run("purpose/", tenant, run),
        StoreKey::Shard(tenant, ShardKey { run, shard }, part) => {
            let part = Text(match part {
                ShardPart::Definition => "/definition",
                ShardPart::Progress => "/progress",
            });
            let (run, shard) = (Id(run.as_raw()), Id(shard.as_raw()));
            join(prefix, &[Text("shard/"), Tenant(tenant), Text("/"), run, Text("/"), shard, part])
        }
        StoreKey::View(tenant, run, key) => {
            let (name, id) = match key {
                ViewKey::Gate => ("/gate", None),
                ViewKey::Open(shard) => ("/open/", Some(shard.as_raw())),
                ViewKey::Owner(shard) => ("/owner/", Some(shard.as_raw())),
                ViewKey::Waiting(worker) => ("/waiting/", Some(worker.as_raw())),
                ViewKey::Ask(shard) => ("/ask/", Some(shard.as_raw())),
                ViewKey::Asker(worker) => ("/asker/", Some(worker.as_raw())),
            };
            let id = id.map_or(Text(""), Id);
            let run = Id(run.as_raw());
            join(prefix, &[Text("view/"), Tenant(tenant), Text("/"), run, Text(name), id])
        }
    };
    Key::from(bytes)
}

impl Keyspace {
    /// How the store is laid out.
    #[must_use]
    pub fn format(&self) -> Key {
        self.key(&StoreKey::Format)
    }

    /// How often the store was set up or restored.
    #[must_use]
    pub fn incarnation(&self) -> Key {
        self.key(&StoreKey::Incarnation)
    }

    /// Up to where the clock may have been read.
    #[must_use]
    pub fn clock(&self) -> Key {
        self.key(&StoreKey::Clock)
    }

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
