use shardwright_contracts::{RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;
use shardwright_engine::codec::RecordKind;
use shardwright_engine::keyspace::Part::{Id, Tenant, Text};
use shardwright_engine::keyspace::{Keyspace, MetaKey};
use shardwright_store::Key;

/// What a key says: every key that there is, without the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKey {
    /// Something about the store as a whole.
    Meta(MetaKey),
    /// What is reserved in all.
    QuotaTotal,
    /// What a tenant has reserved.
    QuotaTenant(TenantId),
    /// A run, apart from its manifest.
    Run(TenantId, RunId),
    /// The root shards of a run.
    Manifest(TenantId, RunId),
    /// How many shards a run has.
    Count(TenantId, RunId),
    /// A registration that is under way.
    Stage(TenantId, RunId),
    /// Up to where a run was told to be done.
    Watermark(TenantId, RunId),
    /// What the holder of a shard thinks of the work that it has left.
    Estimate(TenantId, ShardKey),
    /// To which run a name points.
    Name(TenantId, RunName),
    /// What a run is for.
    Purpose(TenantId, RunId),
    /// One of the two records of a shard.
    Shard(TenantId, ShardKey, ShardPart),
    /// Something that those who wait for work watch.
    View(TenantId, RunId, ViewKey),
}

/// Which of the two records of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardPart {
    /// What it is.
    Definition,
    /// Where it stands.
    Progress,
}

/// What is watched of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ViewKey {
    /// What operations on its shards need to know of it.
    Gate,
    /// A shard that could be claimed.
    Open(ShardId),
    /// Who owns a shard.
    Owner(ShardId),
    /// A worker that found nothing to do.
    Waiting(WorkerId),
    /// What has been asked of a shard's holder.
    Ask(ShardId),
    /// Of which shard a worker has asked a part.
    Asker(WorkerId),
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
            Self::Purpose(..) => RecordKind::RunLabel,
            Self::Shard(_, _, ShardPart::Definition) => RecordKind::Definition,
            Self::Shard(_, _, ShardPart::Progress) => RecordKind::Progress,
            Self::View(_, _, key) => key.kind(),
        }
    }
}

impl StoreKey {
    /// The layout, written once.
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
            Self::Purpose(tenant, run) => of_run("purpose/", tenant, run),
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
                    ViewKey::Ask(shard) => ("/ask/", Some(shard.as_raw())),
                    ViewKey::Asker(worker) => ("/asker/", Some(worker.as_raw())),
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
            Self::Ask(_) => RecordKind::SplitRequest,
            Self::Asker(_) => RecordKind::Requester,
        }
    }
}
