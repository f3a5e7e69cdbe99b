//! What the leader has observed itself.

use std::collections::{BTreeMap, BTreeSet};

use shardwright_contracts::{LogicalTime, ShardId};

use crate::config::ClusterConfig;
use crate::member::{Membership, NodeInstance, NodeInstanceRef};
use crate::plan::{MoveReason, Plan};

/// How often the time for which a node is skipped doubles.
const DOUBLINGS: u32 = 4;

/// What the leader has observed itself, besides stored state. It is not stored: a new leader starts
/// with its observations as a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderObservations {
    /// When it started to follow the cluster.
    pub follows_since: LogicalTime,
    /// Shards whose target or claim it cannot read.
    pub unreadable: BTreeSet<ShardId>,
    /// Nodes that did not claim their shards.
    idle: BTreeMap<NodeInstance, Idle>,
}

/// Default: no observations.
impl Default for LeaderObservations {
    fn default() -> Self {
        let (unreadable, idle) = (BTreeSet::new(), BTreeMap::new());
        Self { follows_since: LogicalTime::ZERO, unreadable, idle }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    passed_over_until: LogicalTime,
    times: u32,
}

/// How many shards a node may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    Full,
    /// One shard at a time, until it claims again.
    Trial,
    /// None, until then.
    PassedOver(LogicalTime),
}

impl LeaderObservations {
    /// The observations of a leader that follows the cluster since then.
    #[must_use]
    pub fn since(follows_since: LogicalTime) -> Self {
        Self { follows_since, ..Self::default() }
    }

    /// The same observations with unreadable shards.
    #[must_use]
    pub fn without(self, unreadable: BTreeSet<ShardId>) -> Self {
        Self { unreadable, ..self }
    }

    /// Records an executed plan: nodes that lost unclaimed shards are skipped, each time for twice
    /// as long.
    pub fn saw_plan(
        &mut self,
        plan: &Plan,
        members: &Membership,
        config: &ClusterConfig,
        now: LogicalTime,
    ) {
        self.idle.retain(|holder, _| members.is_live(holder.borrowed()));
        for one in &plan.moves {
            let MoveReason::NotClaimed { .. } = one.reason else { continue };
            let from = one.from.as_ref().and_then(|from| members.get(from.as_str()));
            let Some(member) = from else { continue };
            let idle = self
                .idle
                .entry(member.holder.clone())
                .or_insert(Idle { passed_over_until: now, times: 0 });
            // Moves that did not fit into one plan count as the same failure.
            if now >= idle.passed_over_until {
                let time = config.stuck_after_ms.saturating_mul(1 << idle.times.min(DOUBLINGS));
                idle.passed_over_until = now.saturating_add(time);
                idle.times += 1;
            }
        }
    }

    /// Records that a node has claimed a shard and is trusted again.
    pub fn saw_claim(&mut self, holder: NodeInstanceRef<'_>) {
        if !self.idle.is_empty() {
            self.idle.remove(&holder.to_holder());
        }
    }

    pub(crate) fn trust(&self, holder: &NodeInstance, now: LogicalTime) -> Trust {
        match self.idle.get(holder) {
            None => Trust::Full,
            Some(idle) if now < idle.passed_over_until => Trust::PassedOver(idle.passed_over_until),
            Some(_) => Trust::Trial,
        }
    }
}
