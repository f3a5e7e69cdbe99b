use shardwright_contracts::{RunId, ShardId, ShardKey, TenantId, WorkerId};
use shardwright_coordination::RunName;

use crate::codec::Kind;

/// What a key says: every key that there is, without the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKey {
    /// How the store is laid out.
    Format,
    /// How often the store was set up or restored.
    Incarnation,
    /// Up to where the clock may have been read.
    Clock,
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
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Format => Kind::Format,
            Self::Incarnation => Kind::Incarnation,
            Self::Clock => Kind::ClockMark,
            Self::QuotaTotal | Self::QuotaTenant(_) => Kind::Quota,
            Self::Run(..) => Kind::Run,
            Self::Manifest(..) => Kind::Manifest,
            Self::Count(..) => Kind::Count,
            Self::Stage(..) => Kind::Stage,
            Self::Watermark(..) => Kind::Watermark,
            Self::Estimate(..) => Kind::Estimate,
            Self::Name(..) => Kind::Named,
            Self::Purpose(..) => Kind::Purpose,
            Self::Shard(_, _, ShardPart::Definition) => Kind::Definition,
            Self::Shard(_, _, ShardPart::Progress) => Kind::Progress,
            Self::View(_, _, key) => key.kind(),
        }
    }
}

impl ViewKey {
    /// Which record is stored there.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Gate => Kind::Gate,
            Self::Open(_) => Kind::OpenShard,
            Self::Owner(_) => Kind::Binding,
            Self::Waiting(_) => Kind::Waiting,
            Self::Ask(_) => Kind::SplitAsk,
            Self::Asker(_) => Kind::Asker,
        }
    }
}
