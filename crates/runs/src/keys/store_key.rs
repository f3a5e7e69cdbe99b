use shardwright_contracts::{RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_engine::codec::RecordKind;
use shardwright_engine::keyspace::Part::{Id, Tenant, Text};
use shardwright_engine::keyspace::{Keyspace, MetaKey};
use shardwright_store::Key;

/// A key without the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKey {
    /// A key of the store as a whole.
    Meta(MetaKey),
    /// Shards reserved by all tenants.
    QuotaTotal,
    /// Shards reserved by a tenant.
    QuotaTenant(TenantId),
    /// A run without its manifest.
    Run(TenantId, RunId),
    /// The root shards of a run.
    Manifest(TenantId, RunId),
    /// Existing and reserved shards of a run.
    Count(TenantId, RunId),
    /// A registration in progress.
    Stage(TenantId, RunId),
    /// Watermark of a run.
    Watermark(TenantId, RunId),
    /// The holder's estimate of a shard's remaining work.
    Estimate(TenantId, ShardKey),
    /// Run to which a name refers.
    Name(TenantId, RunName),
    /// Label of a run.
    Label(TenantId, RunId),
    /// One of the two records of a shard.
    Shard(TenantId, ShardKey, ShardPart),
    /// A watched key of a run.
    View(TenantId, RunId, ViewKey),
}

/// One of the two records of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardPart {
    /// The definition.
    Definition,
    /// The progress.
    Progress,
}

/// A watched key of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewKey {
    /// Gate: the run's state, which every commit of a shard compares.
    Gate,
    /// A claimable shard.
    Open(ShardId),
    /// Owner of a shard.
    Owner(ShardId),
    /// A worker that waits for a shard.
    Waiting(WorkerId),
    /// Split request to the holder of a shard.
    SplitRequest(ShardId),
    /// Shard whose split a worker has requested.
    Requester(WorkerId),
}

impl StoreKey {
    /// Which record is stored there.
    #[must_use]
    pub const fn kind(&self) -> RecordKind {
        match self {
            Self::Meta(key) => key.kind(),
            Self::QuotaTotal | Self::QuotaTenant(_) => RecordKind::ReservedShards,
            Self::Run(..) => RecordKind::RunHead,
            Self::Manifest(..) => RecordKind::Manifest,
            Self::Count(..) => RecordKind::RunShards,
            Self::Stage(..) => RecordKind::Stage,
            Self::Watermark(..) => RecordKind::Watermark,
            Self::Estimate(..) => RecordKind::Estimate,
            Self::Name(..) => RecordKind::RunName,
            Self::Label(..) => RecordKind::RunLabel,
            Self::Shard(_, _, ShardPart::Definition) => RecordKind::Definition,
            Self::Shard(_, _, ShardPart::Progress) => RecordKind::Progress,
            Self::View(_, _, key) => key.kind(),
        }
    }
}

impl StoreKey {
    /// Encodes the key. The only place that knows the layout.
    pub(super) fn in_keyspace(&self, keys: &Keyspace) -> Key {
        let of_run = |name, tenant, run: &RunId| {
            keys.key(&[Text(name), Tenant(tenant), Text("/"), Id(run.as_raw())])
        };
        match self {
            Self::Meta(key) => keys.key(&[key.part()]),
            Self::QuotaTotal => keys.key(&[Text("quota/total")]),
            Self::QuotaTenant(tenant) => keys.key(&[Text("quota/tenant/"), Tenant(tenant)]),
            Self::Run(tenant, run) => of_run("run/", tenant, run),
            Self::Manifest(tenant, run) => of_run("manifest/", tenant, run),
            Self::Count(tenant, run) => of_run("count/", tenant, run),
            Self::Stage(tenant, run) => of_run("stage/", tenant, run),
            Self::Watermark(tenant, run) => of_run("watermark/", tenant, run),
            Self::Estimate(tenant, ShardKey { run, shard }) => {
                let (run, shard) = (Id(run.as_raw()), Id(shard.as_raw()));
                keys.key(&[Text("estimate/"), Tenant(tenant), Text("/"), run, Text("/"), shard])
            }
            Self::Name(tenant, name) => {
                keys.key(&[Text("name/"), Tenant(tenant), Text("/"), Text(name.as_str())])
            }
            Self::Label(tenant, run) => of_run("purpose/", tenant, run),
            Self::Shard(tenant, ShardKey { run, shard }, part) => {
                let part = Text(match part {
                    ShardPart::Definition => "/definition",
                    ShardPart::Progress => "/progress",
                });
                let (run, shard) = (Id(run.as_raw()), Id(shard.as_raw()));
                keys.key(&[Text("shard/"), Tenant(tenant), Text("/"), run, Text("/"), shard, part])
            }
            Self::View(tenant, run, key) => {
                let (name, id) = match key {
                    ViewKey::Gate => ("/gate", None),
                    ViewKey::Open(shard) => ("/open/", Some(shard.as_raw())),
                    ViewKey::Owner(shard) => ("/owner/", Some(shard.as_raw())),
                    ViewKey::Waiting(worker) => ("/waiting/", Some(worker.as_raw())),
                    ViewKey::SplitRequest(shard) => ("/ask/", Some(shard.as_raw())),
                    ViewKey::Requester(worker) => ("/asker/", Some(worker.as_raw())),
                };
                let id = id.map_or(Text(""), Id);
                let run = Id(run.as_raw());
                keys.key(&[Text("view/"), Tenant(tenant), Text("/"), run, Text(name), id])
            }
        }
    }
}

impl ViewKey {
    /// Which record is stored there.
    #[must_use]
    pub const fn kind(self) -> RecordKind {
        match self {
            Self::Gate => RecordKind::RunState,
            Self::Open(_) => RecordKind::Claimable,
            Self::Owner(_) => RecordKind::Binding,
            Self::Waiting(_) => RecordKind::WaitingWorker,
            Self::SplitRequest(_) => RecordKind::SplitRequest,
            Self::Requester(_) => RecordKind::Requester,
        }
    }
}
