use std::fmt;

use shardwright_contracts::{LogicalTime, ShardId};

use crate::address::NodeAddress;

/// A shard that gets another target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The shard.
    pub shard: ShardId,
    /// Its old target.
    pub from: Option<NodeAddress>,
    /// Its new target.
    pub to: NodeAddress,
    /// The reason.
    pub reason: MoveReason,
}

/// Why a shard gets another target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReason {
    /// It had no target.
    FirstPlacement,
    /// Its target is gone.
    NodeGone,
    /// Its target is draining.
    NodeDraining,
    /// Its target did not claim it for this long.
    NotClaimed {
        /// Milliseconds.
        for_ms: u64,
    },
    /// Its target is not available, and this node still serves it.
    StillServed,
    /// It is pinned to this node, which is back.
    PinnedHome,
    /// Shards are spread over the nodes by weight.
    Spread {
        /// The shards of the giving node before this move.
        giver_holds: u64,
        /// Its share.
        giver_share: u64,
        /// The shards of the receiving node before this move.
        taker_holds: u64,
        /// Its share.
        taker_share: u64,
    },
    /// Loads are balanced by weight.
    Load {
        /// The load of the giving node before this move, in percent of its share.
        giver_percent: u32,
        /// The load of the receiving node before this move, in percent of its share.
        taker_percent: u32,
    },
}

impl MoveReason {
    /// Whether the shard could have stayed. Such moves wait for a stable membership and are limited
    /// by batch and cooldown.
    #[must_use]
    pub const fn is_voluntary(self) -> bool {
        matches!(self, Self::PinnedHome | Self::Spread { .. } | Self::Load { .. })
    }
}

/// One line for people.
impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { shard, from, to, reason } = self;
        let shard = shard.as_raw();
        let from = from.as_ref().map_or("no node", NodeAddress::as_str);
        match reason {
            MoveReason::FirstPlacement => {
                write!(f, "shard {shard} moves to {to}: it has no node yet")
            }
            MoveReason::NodeGone => {
                write!(f, "shard {shard} moves from {from} to {to}: {from} is gone")
            }
            MoveReason::NodeDraining => {
                write!(f, "shard {shard} moves from {from} to {to}: {from} is draining")
            }
            MoveReason::NotClaimed { for_ms } => write!(
                f,
                "shard {shard} moves from {from} to {to}: {from} has not claimed it for {for_ms} ms"
            ),
            MoveReason::StillServed => write!(
                f,
                "shard {shard} stays on {to}: {to} still serves it, and {from} is not available"
            ),
            MoveReason::PinnedHome => {
                write!(
                    f,
                    "shard {shard} moves from {from} to {to}: it is pinned to {to}, which is back"
                )
            }
            MoveReason::Spread { giver_holds, giver_share, taker_holds, taker_share } => write!(
                f,
                "shard {shard} moves from {from} to {to}: {from} holds {giver_holds} shards and \
                 should hold {giver_share}, {to} holds {taker_holds} and should hold {taker_share}"
            ),
            MoveReason::Load { giver_percent, taker_percent } => write!(
                f,
                "shard {shard} moves from {from} to {to}: {from} has {giver_percent} % of its \
                 share of the load, {to} has {taker_percent} %"
            ),
        }
    }
}

/// Something that the plan did not do, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanNote {
    /// No node can hold a shard.
    NoNode,
    /// Too few nodes are members.
    BelowQuorum {
        /// The number of members.
        members: usize,
        /// The quorum.
        needed: usize,
    },
    /// The membership changed recently: first placement and rebalancing wait.
    Guarded {
        /// The end of the wait, if nothing changes.
        until: LogicalTime,
        /// Shards without a target.
        unplaced: u32,
    },
    /// The cluster is frozen: nothing moves for balance.
    Frozen,
    /// The nodes differ by less than the threshold of a rebalance.
    WithinThreshold {
        /// The difference of the fullest and the emptiest node, in shards.
        spread: u64,
        /// The threshold, in shards.
        begins_above: u64,
    },
    /// The limit of shards in flight is reached.
    InFlightLimit {
        /// Shards that have to wait.
        waiting: u32,
    },
    /// Shards that moved recently stay where they are.
    CoolingDown {
        /// The number of shards that would move.
        shards: u32,
        /// The end of the first cooldown.
        until: LogicalTime,
    },
    /// Shards wait for the node that they are pinned to.
    PinnedToAbsent {
        /// Their number.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// A node has not claimed its shards for too long. They delay no others.
    Stuck {
        /// The node that should have claimed them by now.
        node: NodeAddress,
        /// Their number.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// A node did not claim its shards and gets no more for a while.
    PassedOver {
        /// The node.
        node: NodeAddress,
        /// When it gets one shard as a trial.
        until: LogicalTime,
    },
    /// The stored state of shards cannot be read, so they do not move.
    Unreadable {
        /// Their number.
        shards: u32,
        /// The first of them.
        first: ShardId,
    },
    /// A shard has more load than any node should have. Only dividing it would help.
    TooHeavy {
        /// The shard.
        shard: ShardId,
        /// Its load, in percent of the share of the strongest node.
        percent: u32,
    },
}

/// One line for people.
impl fmt::Display for PlanNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNode => f.write_str("no node can hold a shard"),
            Self::BelowQuorum { members, needed } => {
                write!(f, "nothing is planned: there are {members} nodes, {needed} are needed")
            }
            Self::Guarded { until, unplaced: 0 } => {
                write!(f, "membership changed recently: rebalancing waits until {until}")
            }
            Self::Guarded { until, unplaced } => write!(
                f,
                "membership changed recently: {unplaced} shards without a node wait until \
                 {until}"
            ),
            Self::Frozen => f.write_str("the cluster is frozen: nothing moves for balance"),
            Self::WithinThreshold { spread, begins_above } => write!(
                f,
                "the fullest and the emptiest node differ by {spread} shards: a rebalance starts \
                 above {begins_above}"
            ),
            Self::InFlightLimit { waiting } => {
                write!(f, "{waiting} shards wait because enough others are moving")
            }
            Self::CoolingDown { shards, until } => {
                write!(f, "{shards} shards moved recently and stay until {until}")
            }
            Self::PinnedToAbsent { shards, first } => write!(
                f,
                "{shards} shards wait for the node that they are pinned to; the first is shard {}",
                first.as_raw()
            ),
            Self::Stuck { node, shards, first } => write!(
                f,
                "{node} has not claimed {shards} of its shards; the first is shard {}",
                first.as_raw()
            ),
            Self::PassedOver { node, until } => {
                write!(f, "{node} did not claim its shards and is skipped until {until}")
            }
            Self::Unreadable { shards, first } => write!(
                f,
                "{shards} shards cannot be read and do not move; the first is shard {}",
                first.as_raw()
            ),
            Self::TooHeavy { shard, percent } => write!(
                f,
                "shard {} has {percent} % of the strongest node's share of the load: only \
                 dividing it would help",
                shard.as_raw()
            ),
        }
    }
}
