//! Leads the cluster while no other node does: collects loads, plans and writes targets.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shardwright_cluster::{ClusterView, LeadError, LeaderStep, LeaderStepError};
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::Member;

use super::{AFTER_FAILURE, SessionAgent};
use crate::notices::Activity;
use crate::transport::ShardLoad;

/// The timeout of a request for loads.
const LOADS_TIMEOUT: Duration = Duration::from_secs(1);

/// The loads of all shards, as far as the leader knows them.
#[derive(Default)]
pub(super) struct Loads {
    /// By shard. For a node that does not answer, its last answer counts.
    known: Vec<Option<u64>>,
    /// The loads that the plan uses.
    planned: Vec<u64>,
    requested_at: Option<Duration>,
}

impl Loads {
    /// Records the answer of the node that holds `held`. A shard that it does not name has no load.
    fn answered(&mut self, held: impl Iterator<Item = ShardId>, loads: Vec<ShardLoad>) {
        let idle = held.map(|shard| ShardLoad { shard, load: 0 });
        for ShardLoad { shard, load } in idle.chain(loads) {
            let at = usize::try_from(shard.as_raw()).unwrap_or(usize::MAX);
            if let Some(known) = self.known.get_mut(at) {
                *known = Some(load);
            }
        }
    }

    /// A shard without a known load counts as the average of the others, so that a silent node does
    /// not count as idle.
    fn fill(&mut self) {
        let known = || self.known.iter().flatten();
        let sum: u128 = known().map(|load| u128::from(*load)).sum();
        let mean = sum.checked_div(known().count() as u128).unwrap_or_default();
        let mean = u64::try_from(mean).unwrap_or(u64::MAX);
        self.planned = self.known.iter().map(|load| load.unwrap_or(mean)).collect();
    }
}

impl SessionAgent {
    /// The loads that the plan uses, or `None` where shards count alike.
    pub(super) async fn loads<'l>(
        &self,
        view: &ClusterView,
        loads: &'l mut Loads,
    ) -> Option<&'l [u64]> {
        if !self.agent.options.balance_load {
            return None;
        }
        let config = self.agent.cluster.config();
        let interval = Duration::from_millis(config.shard_mapping_check_interval_ms);
        let now = self.env().monotonic();
        if loads.requested_at.is_none_or(|at| now.saturating_sub(at) >= interval) {
            loads.requested_at = Some(now);
            loads.known.resize(config.sharding.num_shards.get() as usize, None);
            for (member, answer) in self.request_loads(view).await {
                let held = view.held_by(&member.holder).map(|(shard, _)| shard);
                loads.answered(held, answer);
            }
            loads.fill();
        }
        Some(&loads.planned)
    }

    /// The answers of all nodes that answer.
    async fn request_loads<'v>(&self, view: &'v ClusterView) -> Vec<(&'v Member, Vec<ShardLoad>)> {
        let own = &self.agent.address;
        let (this, others): (Vec<_>, Vec<_>) =
            view.members.iter().partition(|member| member.address() == own);
        let mut found: Vec<_> =
            this.into_iter().map(|member| (member, self.host.loads())).collect();
        let Some(router) = self.agent.router.upgrade() else { return found };
        let transport = router.transport();
        let ask = |member: &'v Member| async move {
            (member, transport.loads(member.address(), LOADS_TIMEOUT).await)
        };
        let mut asked: FuturesUnordered<_> = others.into_iter().map(ask).collect();
        while let Some((member, answer)) = asked.next().await {
            found.extend(answer.ok().map(|loads| (member, loads)));
        }
        found
    }
}

/// The pause of a leader after a step, because changes come in bursts.
const PAUSE: Duration = Duration::from_millis(10);

impl SessionAgent {
    /// Leads whenever there is no other leader. Never returns.
    pub(super) async fn lead(&self) {
        let cluster = &self.agent.cluster;
        let interval = Duration::from_millis(cluster.config().shard_mapping_check_interval_ms);
        let mut changes = cluster.changes();
        let mut loads = Loads::default();
        loop {
            let view = changes.borrow_and_update().clone();
            let next = match self.step(&view, &mut loads).await {
                Ok(Some(step)) => self.time_to_next(&step).min(interval),
                Ok(None) => interval,
                Err(()) => AFTER_FAILURE,
            };
            self.env().sleep(PAUSE).await;
            tokio::select! {
                biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.env().sleep(next) => {}
            }
        }
    }

    /// Tries to lead if there is no leader, and plans if this node leads.
    async fn step(&self, view: &ClusterView, loads: &mut Loads) -> Result<Option<LeaderStep>, ()> {
        match view.live_leader() {
            Some(leader) if leader == self.membership.holder() => {}
            Some(_) => return Ok(None),
            // A leaving node does not start to lead.
            None if self.wants_to_leave() && view.members.len() > 1 => return Ok(None),
            None => match self.membership.try_lead().await {
                Ok(()) => {}
                // Another node was faster, or this session has ended.
                Err(LeadError::Refused(_) | LeadError::Over) => return Ok(None),
                Err(error) => {
                    let is_the_stores = matches!(error, LeadError::Store(_));
                    self.agent.notice_log.record(Activity::Lead, error);
                    return if is_the_stores { Err(()) } else { Ok(None) };
                }
            },
        }
        let loads = self.loads(view, loads).await;
        match self.membership.lead_step(loads).await {
            Ok(step) => Ok(Some(step)),
            Err(LeaderStepError::Refused(_) | LeaderStepError::Over) => Err(()),
            Err(error) => {
                self.agent.notice_log.record(Activity::Lead, error);
                Err(())
            }
        }
    }

    fn time_to_next(&self, step: &LeaderStep) -> Duration {
        match step.plan.ask_again_at {
            Some(at) => {
                let now = self.agent.cluster.now().as_millis();
                Duration::from_millis(at.as_millis().saturating_sub(now))
            }
            None => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_never_answered_does_not_count_as_idle() {
        let mut loads = Loads { known: vec![None; 5], ..Loads::default() };
        let load = |shard, load| ShardLoad { shard: ShardId::from_raw(shard), load };
        let held = [0, 1, 2].map(ShardId::from_raw);
        loads.answered(held.into_iter(), vec![load(0, 40), load(1, 20)]);
        loads.fill();
        assert_eq!(loads.planned, [40, 20, 0, 20, 20]);
        loads.answered([ShardId::from_raw(3)].into_iter(), vec![load(3, 5)]);
        loads.fill();
        assert_eq!(loads.planned, [40, 20, 0, 5, 16]);
    }
}
