//! Keys that belong together.

use shardwright_contracts::{RunId, TenantId};
use shardwright_store::StoreRange;

use super::Keyspace;
use super::part::Part::{self, Id, Tenant, Text};
use super::part::join;

impl Keyspace {
    /// Every key of this keyspace.
    #[must_use]
    pub fn everything(&self) -> StoreRange {
        self.beginning(&[])
    }

    /// The runs of all tenants.
    #[must_use]
    pub fn runs(&self) -> StoreRange {
        self.beginning(&[Text("run/")])
    }

    /// The runs of a tenant.
    #[must_use]
    pub fn runs_of(&self, tenant: TenantId) -> StoreRange {
        self.beginning(&[Text("run/"), Tenant(&tenant), Text("/")])
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
        self.beginning(&[Text("purpose/"), Tenant(&tenant), Text("/")])
    }

    /// The names of a tenant's runs.
    #[must_use]
    pub fn names(&self, tenant: TenantId) -> StoreRange {
        self.beginning(&[Text("name/"), Tenant(&tenant), Text("/")])
    }

    fn of_run(&self, name: &'static str, tenant: TenantId, run: RunId) -> StoreRange {
        self.beginning(&[Text(name), Tenant(&tenant), Text("/"), Id(run.as_raw()), Text("/")])
    }

    fn beginning(&self, parts: &[Part<'_>]) -> StoreRange {
        StoreRange::prefix(join(self.prefix(), parts))
    }
}
