use std::fmt;

use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;

/// A shard that gets another target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Which shard.
    pub shard: ShardId,
    /// Its target so far.
    pub from: Option<NodeAddress>,
    /// Its target from now on.
    pub to: NodeAddress,
    /// Why.
    pub reason: MoveReason,
}

/// Why a shard gets another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReason {
    /// It had none.
    FirstPlacement,
    /// The node it was meant for is gone.
    NodeGone,
    /// The node it was meant for is draining.
    NodeDraining,
    /// The node it was meant for did not claim it for this long.
    NotClaimed {
        /// Milliseconds.
        for_ms: u64,
    },
    /// The node it was meant for cannot have it, and this one still serves it.
    StillServed,
    /// It is pinned to this node, which is back.
    PinnedHome,
    /// Nodes should hold equally many shards, by their weight.
    Spread {
        /// What the giving node held before this move.
        giver_holds: u64,
        /// What it should hold.
        giver_share: u64,
        /// What the taking node held before this move.
        taker_holds: u64,
        /// What it should hold.
        taker_share: u64,
    },
    /// Nodes should bear equal load, by their weight.
    Load {
        /// What the giving node bore before this move, in percent of its share.
        giver_percent: u32,
        /// What the taking node bore before this move, in percent of its share.
        taker_percent: u32,
    },
}

impl MoveReason {
    /// Whether the shard could have stayed: such moves wait for the guard, and end at the limits
    /// of a batch and of the cooldown.
    #[must_use]
    pub const fn is_voluntary(self) -> bool {
        matches!(self, Self::PinnedHome | Self::Spread { .. } | Self::Load { .. })
    }
}

/// A sentence.
impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, from, to, reason } = self;
        let shard = shard.as_raw();
        let from = from.as_ref().map_or("no node", NodeAddress::as_str);
        match reason {
            MoveReason::FirstPlacement => {
                write!(f, "shard {shard} goes to {to}: it has no node yet")
            }
            MoveReason::NodeGone => {
                write!(f, "shard {shard} goes from {from} to {to}: {from} is gone")
            }
            MoveReason::NodeDraining => {
                write!(f, "shard {shard} goes from {from} to {to}: {from} is draining")
            }
            MoveReason::NotClaimed { for_ms } => write!(
                f,
                "shard {shard} goes from {from} to {to}: {from} has not claimed it for {for_ms} ms"
            ),
            MoveReason::StillServed => write!(
                f,
                "shard {shard} stays on {to}: {to} still serves it, and {from} cannot have it"
            ),
            MoveReason::PinnedHome => {
                write!(
                    f,
                    "shard {shard} goes from {from} to {to}: it is pinned to {to}, which is back"
                )
            }
            MoveReason::Spread { giver_holds, giver_share, taker_holds, taker_share } => write!(
                f,
                "shard {shard} goes from {from} to {to}: {from} holds {giver_holds} shards and \
                 should hold {giver_share}, {to} holds {taker_holds} and should hold {taker_share}"
            ),
            MoveReason::Load { giver_percent, taker_percent } => write!(
                f,
                "shard {shard} goes from {from} to {to}: {from} bears {giver_percent} % of its \
                 share of the load, {to} bears {taker_percent} %"
            ),
        }
    }
}

/// Something that a plan did not do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanNote {
    /// No node can have a shard.
    NoNode,
    /// Too few nodes are there to decide anything.
    BelowQuorum {
        /// How many are there.
        members: usize,
        /// How many are needed.
        needed: usize,
    },
    /// Nodes came or went a moment ago: first placement and balance wait.
    Guarded {
        /// Until when, if nothing changes.
        until: LogicalTime,
        /// Shards that have no target yet.
        unplaced: u32,
    },
    /// The cluster is frozen: nothing is moved for balance.
    Frozen,
    /// Nodes differ, and not by enough to begin a rebalance.
    WithinThreshold {
        /// By how many shards the fullest and the emptiest differ.
        spread: u64,
        /// Above how many a rebalance begins.
        begins_above: u64,
    },
    /// As many shards are on their way as may be.
    InFlightLimit {
        /// Shards that should go and wait.
        waiting: u32,
    },
    /// Shards that were moved a moment ago stay where they are.
    CoolingDown {
        /// How many would have been moved.
        shards: u32,
        /// When the first of them may be moved again.
        until: LogicalTime,
    },
    /// Shards wait for the node that they are pinned to.
    PinnedToAbsent {
        /// How many.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// Shards have been on their way to a node for too long. They hold up no others.
    Stuck {
        /// The node that should have claimed them by now.
        node: NodeAddress,
        /// How many.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// A node did not claim what was meant for it and gets nothing more for a while.
    PassedOver {
        /// The node.
        node: NodeAddress,
        /// When it gets a shard to show that it claims again.
        until: LogicalTime,
    },
    /// What is stored of shards cannot be read. They are left alone.
    Unreadable {
        /// How many.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// A shard bears more than any node should: only dividing it would help.
    TooHeavy {
        /// Which shard.
        shard: ShardId,
        /// Its load, in percent of the share of the strongest node.
        percent: u32,
    },
}

/// A sentence.
impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode => f.write_str("there is no node that could have a shard"),
            Self::BelowQuorum { members, needed } => {
                write!(f, "nothing is decided: {members} nodes are there, {needed} are needed")
            }
            Self::Guarded { until, unplaced: 0 } => {
                write!(f, "nodes came or went a moment ago: balance waits until {until}")
            }
            Self::Guarded { until, unplaced } => write!(
                f,
                "nodes came or went a moment ago: {unplaced} shards without a node wait until \
                 {until}"
            ),
            Self::Frozen => f.write_str("the cluster is frozen: nothing is moved for balance"),
            Self::WithinThreshold { spread, begins_above } => write!(
                f,
                "the fullest and the emptiest node differ by {spread} shards: a rebalance begins \
                 above {begins_above}"
            ),
            Self::InFlightLimit { waiting } => {
                write!(f, "{waiting} shards wait because enough others are on their way")
            }
            Self::CoolingDown { shards, until } => {
                write!(f, "{shards} shards were moved a moment ago and stay until {until}")
            }
            Self::PinnedToAbsent { shards, first } => write!(
                f,
                "{shards} shards wait for the node that they are pinned to; the first is shard {}",
                first.as_raw()
            ),
            Self::Stuck { node, shards, first } => write!(
                f,
                "{node} has not got {shards} shards that are meant for it; the first is shard {}",
                first.as_raw()
            ),
            Self::PassedOver { node, until } => {
                write!(f, "{node} did not claim what it was given and is passed over until {until}")
            }
            Self::Unreadable { shards, first } => write!(
                f,
                "{shards} shards cannot be read and are left alone; the first is shard {}",
                first.as_raw()
            ),
            Self::TooHeavy { shard, percent } => write!(
                f,
                "shard {} bears {percent} % of what the strongest node should: only dividing it \
                 would help",
                shard.as_raw()
            ),
        }
    }
}
