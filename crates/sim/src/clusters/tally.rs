//! Faults around a cluster, and counts.

use std::collections::BTreeMap;

use shardwright_api::{CallError, UnknownWhy};

use crate::fault::faults;
use crate::runtime::fault::StoreFault;
use crate::tally::merge;

/// Counts of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTally {
    /// Seeds.
    pub seeds: u64,
    /// Seeds without faults.
    pub calm_seeds: u64,
    /// Steps of commits that changed the cluster.
    pub steps: u64,
    /// Milliseconds on the world's clock.
    pub simulated_ms: u64,
    /// Claims and releases.
    pub claims: u64,
    /// Shards whose target a leader or an operator changed.
    pub moves: u64,
    /// Leader changes.
    pub leaders: u64,
    /// Drains that finished.
    pub drains: u64,
    /// Objects that were deleted.
    pub deletions: u64,
    /// Objects that were evicted.
    pub evictions: u64,
    /// Accesses of objects that were rejected for a stale fence.
    pub stale_writes: u64,
    /// Calls by outcome.
    pub calls: BTreeMap<&'static str, u64>,
    /// Faults around the store, by kind.
    pub store_faults: BTreeMap<StoreFault, u64>,
    /// Other faults, by kind.
    pub faults: BTreeMap<ClusterFault, u64>,
}

impl ClusterTally {
    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.calm_seeds += other.calm_seeds;
        self.steps += other.steps;
        self.simulated_ms += other.simulated_ms;
        self.claims += other.claims;
        self.moves += other.moves;
        self.leaders += other.leaders;
        self.drains += other.drains;
        self.deletions += other.deletions;
        self.evictions += other.evictions;
        self.stale_writes += other.stale_writes;
        merge(&mut self.calls, &other.calls);
        merge(&mut self.store_faults, &other.store_faults);
        merge(&mut self.faults, &other.faults);
    }
}

/// Every outcome of a call that a sweep must have seen.
pub const OUTCOMES: &[&str] = &[
    "answered",
    "abandoned",
    "invalid id",
    "unknown type",
    "too large",
    "not the owner",
    "not serving",
    "moving",
    "unclaimed",
    "node gone",
    "unreachable",
    "late",
    "queue full",
    "cycle",
    "chain too long",
    "activation failed",
    "refused",
    "panicked",
    "unknown: late",
    "unknown: lost",
    "unknown: not serving",
    "unknown: object",
];

/// The outcome of a call, as in [`OUTCOMES`].
pub(super) const fn outcome<T>(answer: &Result<T, CallError>) -> &'static str {
    match answer {
        Ok(_) => "answered",
        Err(CallError::InvalidId(_)) => "invalid id",
        Err(CallError::UnknownType) => "unknown type",
        Err(CallError::TooLarge { .. }) => "too large",
        Err(CallError::NotOwner { .. }) => "not the owner",
        Err(CallError::NotServing) => "not serving",
        Err(CallError::Moving { .. }) => "moving",
        Err(CallError::Unclaimed { .. }) => "unclaimed",
        Err(CallError::NodeGone { .. }) => "node gone",
        Err(CallError::Unreachable { .. }) => "unreachable",
        Err(CallError::Late) => "late",
        Err(CallError::QueueFull(_)) => "queue full",
        Err(CallError::Overloaded(_)) => "overloaded",
        Err(CallError::MembersOnly) => "members only",
        Err(CallError::Cycle) => "cycle",
        Err(CallError::ChainTooLong { .. }) => "chain too long",
        Err(CallError::Activation(_)) => "activation failed",
        Err(CallError::Refused(_)) => "refused",
        Err(CallError::Panicked) => "panicked",
        Err(CallError::Unknown(UnknownWhy::Late)) => "unknown: late",
        Err(CallError::Unknown(UnknownWhy::Lost)) => "unknown: lost",
        Err(CallError::Unknown(UnknownWhy::NotServing)) => "unknown: not serving",
        Err(CallError::Unknown(UnknownWhy::Object)) => "unknown: object",
    }
}

faults! {
    /// A fault in a cluster, besides faults around its store.
    ClusterFault {
        CallLost = "call lost before it reached its node",
        CallDelayed = "call or answer delayed",
        AnswerLost = "answer lost after the call was handled",
        CallReset = "connection between processes reset",
        Unreachable = "node refused the connection",
        GateCut = "gate cut off from a node",
        NodesCut = "nodes cut off from each other",
        GateCrashed = "gate crashed",
        CallerGone = "call abandoned by its caller",
        PausedBeyondSession = "node paused for longer than its session",
        LeaderHit = "leader crashed, paused or cut off",
        LeaderDeposed = "leader's entry deleted",
        ClaimsRefused = "claims rejected of a node that kept its session",
        EffectLost = "access to the object store lost",
        EffectLate = "access applied after its sender had timed out",
        EffectReplyLost = "access applied, its reply lost",
    }
}
