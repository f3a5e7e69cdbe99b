//! Bugs planted in clusters: in commits of nodes, in objects, and in calls to objects.

use std::sync::Arc;

use shardwright_cluster::keys::{ClusterKey, ClusterKeys};
use shardwright_cluster::records::ShardClaimRecord;
use shardwright_engine::codec::Record;
use shardwright_placement::{Claim, ClusterConfig};
use shardwright_store::memory::MemoryStore;
use shardwright_store::{Commit, Key, SessionError, Write};

use super::bugs;
use super::tamper::{self, Tamper};
use crate::clusters;
use crate::oracle::Finding;
use crate::runtime::direct::current;

bugs! {
    /// A bug in nodes, gates or leaders.
    ClusterBug, within 200 seeds, in worlds of live {
        LeaderUncompared: Store, 56, "leadership" =
            "targets are written without comparing the leader";
        MembershipUncompared: Store, 18, "claims" =
            "a claim compares neither its node's membership nor its predecessor's";
        FenceKept: Store, 0, "claims" = "a claim gets no new fence";
        LimitsIgnored: Config, 2, "budgets" = "any number of shards is in flight";
        CooldownIgnored: Config, 1, "no round trips" = "a shard may be moved again at once";
        StuckForever: Config, 0, "takeover" =
            "a shard that is not claimed keeps its target forever";
        MemberOutlivesSession: Store, 0, "convergence" = "a node stays a member after its session";
        RelistSkipped: Store, 34, "convergence" = "a view that missed a change is not listed again";
        NestedNotAdmitted: Objects, 52, "planned moves fail no call" =
            "a draining shard does not admit nested calls of calls that run in it";
        CallsNotAwaited: Objects, 0, "eviction" = "a shard is handed over while calls run in it";
        ReleasedBeforeEvicted: Objects, 0, "eviction" =
            "a shard is released before its objects are gone";
        FenceNotPassed: Objects, 0, "one writer per fence" =
            "objects do not get the fence of the claim";
        SessionIgnored: Store, 6, "only the holder serves" =
            "a node keeps serving after its session may have ended";
        SecondPlace: Objects, 0, "reads are not stale" = "an object is active twice on its node";
        DeadlineForgotten: Calls, 0, "deadlines are kept" = "a call waits beyond its deadline";
        LossPanics: Objects, 0, "assertions" =
            "a node panics when it finds that it has lost a shard";
        UnknownRetried: Calls, 0, "no increment is lost" =
            "a call with unknown outcome is made again";
    }
}

fn live(bug: ClusterBug, seed: u64) -> Vec<Finding> {
    clusters::live_with(seed, clusters::ACTS, false, Some(bug)).findings
}

/// Changes the configuration by which leaders plan.
pub(crate) fn plans_by(bug: Option<ClusterBug>, config: &mut ClusterConfig) {
    match bug {
        Some(ClusterBug::LimitsIgnored) => {
            config.rebalance_shards_batch_size = Some(u32::MAX);
            config.in_flight_per_node_max = u32::MAX;
            config.in_flight_max = u32::MAX;
        }
        Some(ClusterBug::CooldownIgnored) => config.move_cooldown_ms = 0,
        Some(ClusterBug::StuckForever) => config.stuck_after_ms = u64::MAX,
        _ => {}
    }
}

/// A bug between a process of a cluster and the store.
pub(crate) struct ClusterTamper {
    bug: ClusterBug,
    keys: ClusterKeys,
}

impl ClusterTamper {
    pub(crate) fn of(bug: ClusterBug, keys: ClusterKeys) -> Arc<dyn Tamper> {
        Arc::new(Self { bug, keys })
    }

    fn is_claim(&self, key: &Key) -> bool {
        matches!(self.keys.parse(key), Some(ClusterKey::Shard(_)))
    }

    fn is_member(&self, key: &Key) -> bool {
        matches!(self.keys.parse(key), Some(ClusterKey::Member(_)))
    }

    /// The claim with the fence that the shard had before.
    fn with_old_fence(&self, store: &MemoryStore, write: &Write) -> Option<Write> {
        let Write::Put { key, value, session } = write else { return None };
        let decode = |value: &[u8]| ShardClaimRecord::decode(value).ok();
        let claim = decode(value).filter(|_| self.is_claim(key))?.claim;
        let fence = decode(&current(store, key)?.value)?.claim.fence;
        let value = ShardClaimRecord { claim: Claim { fence, ..claim } }.encode();
        Some(Write::Put { key: key.clone(), value, session: *session })
    }

    fn changed(&self, store: &MemoryStore, commit: &Commit) -> Option<Commit> {
        let writes = |is: &dyn Fn(&Key) -> bool| commit.writes().iter().any(|it| is(it.key()));
        match self.bug {
            ClusterBug::LeaderUncompared
                if !writes(&|key| self.keys.parse(key) == Some(ClusterKey::Leader)) =>
            {
                let is_leader = |key: &Key| self.keys.parse(key) == Some(ClusterKey::Leader);
                tamper::uncompared(commit, is_leader)
            }
            ClusterBug::MembershipUncompared if writes(&|key| self.is_claim(key)) => {
                tamper::uncompared(commit, |key| self.is_member(key))
            }
            ClusterBug::FenceKept => tamper::rewritten(commit, |write| {
                Some(self.with_old_fence(store, write).unwrap_or_else(|| write.clone()))
            }),
            ClusterBug::MemberOutlivesSession => tamper::rewritten(commit, |write| {
                let is_member = self.is_member(write.key());
                Some(if is_member { tamper::unbound(write) } else { write.clone() })
            }),
            _ => None,
        }
    }
}

impl Tamper for ClusterTamper {
    fn commit(&self, store: &MemoryStore, commit: Commit) -> Option<Commit> {
        Some(self.changed(store, &commit).unwrap_or(commit))
    }

    fn kept_alive(&self, outcome: Result<(), SessionError>) -> Result<(), SessionError> {
        if self.bug == ClusterBug::SessionIgnored { Ok(()) } else { outcome }
    }

    fn swallows_gaps(&self) -> bool {
        self.bug == ClusterBug::RelistSkipped
    }
}
