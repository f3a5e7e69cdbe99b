//! What the leader writes: where shards should be, all under one version.

use std::fmt;

use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;
use crate::flags::Flags;

/// Which state of all targets together. Each write of the leader makes the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetVersion(u64);

impl TargetVersion {
    /// Nothing was ever written.
    pub const NONE: Self = Self(0);

    /// Wraps a raw number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The raw number.
    #[must_use]
    pub const fn as_raw(self) -> u64 {
        self.0
    }

    /// The version that the next write makes. It would take a write every nanosecond for five
    /// centuries to run out of them.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for TargetVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Since when a shard has its target, and whether it had another one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    /// Nobody knows. It counts from when whoever plans began to look, or from when nodes last came
    /// or went.
    #[default]
    Unknown,
    /// It was given its first target then.
    Placed(LogicalTime),
    /// It was moved then.
    Moved(LogicalTime),
}

impl Since {
    /// When, if that is known.
    #[must_use]
    pub const fn time(self) -> Option<LogicalTime> {
        match self {
            Self::Unknown => None,
            Self::Placed(time) | Self::Moved(time) => Some(time),
        }
    }
}

/// Where one shard should be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The node, unless none was chosen yet.
    pub node: Option<NodeAddress>,
    /// What else is said of the shard.
    pub flags: Flags,
    /// Since when.
    pub since: Since,
}

/// What holds for all targets together. A new leader goes on from here, so that a change of
/// leaders changes no decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TargetHeader {
    /// Which state this is.
    pub version: TargetVersion,
    /// Whether somebody asked that nothing be moved that need not be.
    pub frozen: bool,
    /// Whether a rebalance has begun and goes on until shards are spread evenly.
    pub spreading: bool,
    /// Whether load is being moved and goes on until it is within the narrower band.
    pub shedding: bool,
}

/// A shard's new target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetChange {
    /// The shard.
    pub shard: ShardId,
    /// All that the leader says of it from now on.
    pub target: Target,
}

/// One write of the leader: it applies to the version before it and to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetUpdate {
    /// What holds afterwards; its version is the one that this write makes.
    pub header: TargetHeader,
    /// The shards that change, each once.
    pub changes: Vec<TargetChange>,
}
