use std::time::Duration;

use futures_util::{StreamExt, stream};
use shardwright_cluster::ClusterView;
use shardwright_contracts::Env;
use shardwright_placement::DrainProgress;

use super::work::{Done, Work};
use super::{EndReason, SessionAgent};
use crate::node::NodeState;
use crate::notices::Activity;

/// How long to wait after the node could not say that it leaves.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// How a node leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// It does not.
    No,
    /// It hands over what others take.
    Politely,
    /// It releases everything, also shards without a target.
    AtOnce,
    /// The same, and its time is over: what the store does not let it release, it leaves to the end
    /// of its session.
    AtLast,
}

impl Leaving {
    /// Whether shards without a target are released.
    pub(super) const fn is_at_once(self) -> bool {
        matches!(self, Self::AtOnce | Self::AtLast)
    }
}

impl SessionAgent {
    /// Begins to leave, and returns the deadline for others to take the shards. It counts from now,
    /// also if the announcement cannot be stored.
    pub(super) fn begin_leaving(&self, work: &mut Work) -> Duration {
        self.agent.state.send_replace(NodeState::Draining);
        let announced = self.clone().announce_leaving();
        work.begin(stream::once(announced).boxed());
        self.env().monotonic().saturating_add(self.agent.options.drain_patience)
    }

    /// Announces to the leader that the node is leaving.
    async fn announce_leaving(self) -> Done {
        while let Err(error) = self.membership.set_leaving(true).await {
            self.agent.notice_log.record(Activity::Leave, error);
            self.env().sleep(AFTER_FAILURE).await;
        }
        Done::Announced
    }

    /// How long others may still take for what they are to have.
    pub(super) fn patience_left(&self, leaving: Leaving, impatient_at: Duration) -> Duration {
        match leaving {
            Leaving::Politely | Leaving::AtOnce => {
                impatient_at.saturating_sub(self.env().monotonic())
            }
            Leaving::No | Leaving::AtLast => Duration::MAX,
        }
    }

    /// As long as others can take the shards, each goes when another is meant to have it.
    pub(super) fn how_to_leave(&self, view: &ClusterView, impatient_at: Duration) -> Leaving {
        let own = &self.agent.address;
        let others = view.members.iter().any(|one| !one.draining && one.address() != own);
        if self.env().monotonic() >= impatient_at {
            Leaving::AtLast
        } else if others {
            Leaving::Politely
        } else {
            Leaving::AtOnce
        }
    }

    /// How the session ends, if a leaving node may go: it holds no shard, or only shards that the
    /// store does not let it release.
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
            Leaving::Politely => progress.is_done(),
            Leaving::AtOnce | Leaving::AtLast => progress.held == 0,
        };
        if is_gone && self.host.held().next().is_none() {
            return Some(EndReason::HandedOver);
        }
        let is_stuck = self.host.held().all(|(shard, _)| work.is_unreleased(shard));
        (is_stuck && leaving == Leaving::AtLast).then_some(EndReason::NotReleased)
    }
}
