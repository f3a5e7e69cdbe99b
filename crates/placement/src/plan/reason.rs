use std::fmt;

use shardwright_contracts::ShardId;

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
