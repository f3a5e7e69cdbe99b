//! Operations on shards. Each checks every rule and returns what to write, or the rule that forbids
//! it. This module writes nothing.
//!
//! | operation | caller | writes |
//! |---|---|---|
//! | [`claim()`] | the target of the shard | its claim, with a new fence |
//! | [`release()`] | the holder | its claim, without a holder |
//! | [`keep()`] | the holder | its claim, unchanged |
//! | [`reassign()`], [`pin()`], [`unpin()`], [`freeze()`] | an operator | targets |
//! | [`lead()`], [`check_leader()`] | the leader | the leader's key; nothing |

mod claims;
mod targets;

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance, NodeInstanceRef};
use crate::target::{TargetUpdate, TargetVersion};

pub use claims::{ClaimRefused, ReleaseReason, ReleaseRefused, claim, keep, release};
pub use targets::{FreezeRefused, PinRefused, ReassignRefused, freeze, pin, reassign, unpin};

/// Why a node may not lead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadRefused {
    /// It is not a member.
    #[error("{0} is not a member in this incarnation")]
    NotAMember(NodeAddress),
    /// It leads already.
    #[error("this node leads already")]
    AlreadyLeading,
    /// Another member leads.
    #[error("{0} leads and is a member")]
    LedByMember(NodeAddress),
}

/// What a node writes to become the leader. `leader` is the stored leader.
///
/// The driver compares the leader's key and both memberships.
pub fn lead(
    leader: Option<NodeInstanceRef<'_>>,
    candidate: &NodeInstance,
    members: &Membership,
) -> Result<NodeInstance, LeadRefused> {
    if !members.is_live(candidate.borrowed()) {
        return Err(LeadRefused::NotAMember(candidate.address.clone()));
    }
    match leader {
        Some(leader) if leader == candidate.borrowed() => Err(LeadRefused::AlreadyLeading),
        Some(leader) if members.is_live(leader) => {
            Err(LeadRefused::LedByMember(leader.address.clone()))
        }
        Some(_) | None => Ok(candidate.clone()),
    }
}

/// Why a write of targets is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderRefused {
    /// There is no leader.
    #[error("there is no leader")]
    NoLeader,
    /// The writer is not the leader.
    #[error("{0} leads")]
    NotLeading(NodeAddress),
    /// The write is based on outdated targets.
    #[error("targets are at version {stored}, the write makes version {offered}")]
    StaleVersion {
        /// The stored version.
        stored: TargetVersion,
        /// The version of the write.
        offered: TargetVersion,
    },
}

/// Checks whether `writer` may store an update. `leader` and `stored` are the stored values.
///
/// The driver compares both again in the same commit, so a replaced leader cannot write.
pub fn check_leader(
    leader: Option<NodeInstanceRef<'_>>,
    writer: &NodeInstance,
    stored: TargetVersion,
    update: &TargetUpdate,
) -> Result<(), LeaderRefused> {
    match leader {
        None => return Err(LeaderRefused::NoLeader),
        Some(leader) if leader != writer.borrowed() => {
            return Err(LeaderRefused::NotLeading(leader.address.clone()));
        }
        Some(_) => {}
    }
    let offered = update.header.version;
    if offered != stored.next() {
        return Err(LeaderRefused::StaleVersion { stored, offered });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
