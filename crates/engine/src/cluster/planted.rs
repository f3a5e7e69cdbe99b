//! Bugs planted on purpose, to show that the simulator's oracles can fail.
//!
//! Each [`Defect`] leaves out one of the things by which a cluster stays correct on a store that
//! fails. With the feature `planted-bugs` at most one is active in a process; without it the
//! question is a constant `false`.

use std::borrow::Cow;

use shardwright_placement::{Claim, ClusterConfig};

shardwright_coordination::defects! {
    LeaderUncompared = "targets are written without a look at who leads",
    MembershipUncompared = "a claim compares neither its node's membership nor its predecessor's",
    FenceKept = "a claim gives no new fence",
    LimitsIgnored = "as many shards are on their way as there are",
    CooldownIgnored = "a shard may be moved again at once",
    StuckForever = "a shard that is not claimed is left to its target for ever",
    MemberOutlivesSession = "a node is a member for longer than its session",
    RelistSkipped = "a view that missed something is not listed anew",
}

/// What a leader plans by, which only a defect makes another than what was configured.
pub(super) fn plans_by(config: &ClusterConfig) -> Cow<'_, ClusterConfig> {
    if is_active(Defect::LimitsIgnored) {
        return Cow::Owned(ClusterConfig {
            rebalance_shards_batch_size: Some(u32::MAX),
            in_flight_per_node_max: u32::MAX,
            in_flight_max: u32::MAX,
            ..config.clone()
        });
    }
    if is_active(Defect::CooldownIgnored) {
        return Cow::Owned(ClusterConfig { move_cooldown_ms: 0, ..config.clone() });
    }
    if is_active(Defect::StuckForever) {
        return Cow::Owned(ClusterConfig { stuck_after_ms: u64::MAX, ..config.clone() });
    }
    Cow::Borrowed(config)
}

/// What is claimed, which only a defect makes another than what the rules say.
pub(super) fn claimed(claim: Claim, before: Option<shardwright_contracts::FenceEpoch>) -> Claim {
    match before.filter(|_| is_active(Defect::FenceKept)) {
        Some(fence) => Claim { fence, ..claim },
        None => claim,
    }
}
