use std::time::Duration;

use futures_util::{StreamExt, stream};
use shardwright_cluster::ClusterView;
use shardwright_contracts::Env;
use shardwright_placement::DrainProgress;

use super::work::{Done, Work};
use super::{AFTER_FAILURE, EndReason, SessionAgent};
use crate::node::NodeState;
use crate::notices::Activity;

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It does not leave.
    No,
    /// It hands over its shards to other nodes.
    HandingOver,
    /// It releases all shards, even those without a target.
    AtOnce,
    /// The same after its timeout: shards that the store does not let it release stay held until
    /// its session expires.
    TimedOut,
}

impl Leaving {
    /// Whether shards without a target are released.
    pub(super) const fn is_at_once(self) -> bool {
        matches!(self, Self::AtOnce | Self::TimedOut)
    }
}

impl SessionAgent {
    /// Starts to leave, and returns the deadline for other nodes to claim the shards. The time
    /// counts from now, even if the announcement cannot be stored.
    pub(super) fn begin_leaving(&self, work: &mut Work) -> Duration {
        self.agent.state.send_replace(NodeState::Draining);
        let announced = self.clone().announce_leaving();
        work.begin(stream::once(announced).boxed());
        self.env().monotonic().saturating_add(self.agent.options.drain_timeout)
    }

    /// Announces to the leader that the node is leaving.
    async fn announce_leaving(self) -> Done {
        while let Err(error) = self.membership.set_leaving(true).await {
            self.agent.notice_log.record(Activity::Leave, error);
            self.env().sleep(AFTER_FAILURE).await;
        }
        Done::Announced
    }

    /// The time left for other nodes to claim their shards.
    pub(super) fn time_left(&self, leaving: Leaving, drain_deadline: Duration) -> Duration {
        match leaving {
            Leaving::HandingOver | Leaving::AtOnce => {
                drain_deadline.saturating_sub(self.env().monotonic())
            }
            Leaving::No | Leaving::TimedOut => Duration::MAX,
        }
    }

    /// While other nodes can take the shards, each goes when it has another target.
    pub(super) fn how_to_leave(&self, view: &ClusterView, drain_deadline: Duration) -> Leaving {
        let own = &self.agent.address;
        let others = view.members.iter().any(|one| !one.draining && one.address() != own);
        if self.env().monotonic() >= drain_deadline {
            Leaving::TimedOut
        } else if others {
            Leaving::HandingOver
        } else {
            Leaving::AtOnce
        }
    }

    /// How the session ends, if a leaving node may go. It may if it holds no shard, or only shards
    /// that the store does not let it release.
    pub(super) fn may_go(
        &self,
        view: &ClusterView,
        leaving: Leaving,
        work: &Work,
    ) -> Option<EndReason> {
        if !work.is_idle() {
            return None;
        }
        let progress = DrainProgress::of(&view.map, &self.agent.address, &view.members);
        let is_gone = match leaving {
            Leaving::No => return None,
            Leaving::HandingOver => progress.is_done(),
            Leaving::AtOnce | Leaving::TimedOut => progress.held == 0,
        };
        if is_gone && self.host.held().next().is_none() {
            return Some(EndReason::HandedOver);
        }
        let is_stuck = self.host.held().all(|(shard, _)| work.is_unreleased(shard));
        (is_stuck && leaving == Leaving::TimedOut).then_some(EndReason::NotReleased)
    }
}
