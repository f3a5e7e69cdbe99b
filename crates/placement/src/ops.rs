//! Operations on shards. Each checks every rule and returns what to write, or the rule that forbids
//! it. Nothing here writes.
//!
//! | operation | whose | writes |
//! |---|---|---|
//! | [`claim()`] | the node that should have the shard | its claim, with a new fence |
//! | [`release()`] | the node that has it | its claim, without a holder |
//! | [`keep()`] | the node that has it | its claim, as it is |
//! | [`reassign()`], [`pin()`], [`unpin()`], [`freeze()`] | an operator's | targets |
//! | [`lead()`], [`check_leader()`] | the leader's own | the leader's key; nothing |

mod claims;
mod targets;

use crate::address::NodeAddress;
use crate::member::{Membership, NodeInstance, NodeInstanceRef};
use crate::target::{TargetUpdate, TargetVersion};

pub use claims::{ClaimRefused, ReleaseReason, ReleaseRefused, claim, keep, release};
pub use targets::{FreezeRefused, PinRefused, ReassignRefused, freeze, pin, reassign, unpin};

/// Why a node may not become the leader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeadRefused {
    /// Only members lead.
    #[error("{0} is not a member in this life")]
    NotAMember(NodeAddress),
    /// It leads already.
    #[error("this node leads already")]
    AlreadyLeading,
    /// Another member leads.
    #[error("{0} leads and is a member")]
    LedByMember(NodeAddress),
}

/// What a node writes to become the leader, where `leader` is who is stored as the leader.
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
    /// The writer does not lead, or not any more.
    #[error("{0} leads")]
    NotLeading(NodeAddress),
    /// It was decided on targets that are not the latest.
    #[error("targets are at version {stored}, the write makes version {offered}")]
    StaleVersion {
        /// What is stored.
        stored: TargetVersion,
        /// What the write would make.
        offered: TargetVersion,
    },
}

/// Whether `writer` may store an update where `leader` and `stored` are what is there.
///
/// The driver compares both again in the same commit, so that a leader that was replaced
/// since can write nothing.
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
