//! What can go wrong around a cluster, and counts of what happened.

use std::collections::BTreeMap;

use shardwright_api::{CallError, UnknownWhy};

use crate::fault::faults;
use crate::runtime::fault::StoreFault;
use crate::tally::merge;

/// Counts of what happened, of one seed or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterTally {
    /// How many seeds.
    pub seeds: u64,
    /// Seeds in which nothing went wrong but what was planned.
    pub calm_seeds: u64,
    /// Commits that changed something about the cluster.
    pub steps: u64,
    /// Milliseconds on the world's clock.
    pub simulated_ms: u64,
    /// Claims and releases.
    pub claims: u64,
    /// Shards that a leader or an operator gave another target.
    pub moves: u64,
    /// Changes of who leads.
    pub leaders: u64,
    /// Drains that ended with the node gone.
    pub drains: u64,
    /// Writes of objects that were refused because their fence was stale.
    pub stale_writes: u64,
    /// Calls by outcome.
    pub calls: BTreeMap<&'static str, u64>,
    /// By kind, around the store.
    pub store_faults: BTreeMap<StoreFault, u64>,
    /// By kind, elsewhere.
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

/// The words for what came of a call.
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
        Err(CallError::QueueFull { .. }) => "queue full",
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
    /// Something that goes wrong in a cluster, besides what goes wrong around its store.
    ClusterFault {
        CallLost = "call lost on the way to its node",
        CallDelayed = "call delayed on the way",
        AnswerLost = "answer lost after the call had ended",
        CallReset = "connection between processes reset",
        Unreachable = "node refused the connection",
        GateCut = "gate cut off from a node",
        NodesCut = "nodes cut off from each other",
        GateCrashed = "gate crashed",
        CallerGone = "caller went away",
        PausedBeyondSession = "node paused for longer than its session",
        LeaderStruck = "leader crashed, paused or cut off",
        LeaderDeposed = "entry of the leader taken away",
        ClaimsRefused = "node kept its session and could claim nothing",
        EffectLost = "write of an object lost",
        EffectLate = "write of an object stored after its sender had given up",
        EffectUnheard = "write of an object stored, the answer lost",
    }
}
