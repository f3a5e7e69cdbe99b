use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shardwright_cluster::ClusterView;
use shardwright_contracts::{Env, ShardId};
use shardwright_placement::Member;

use super::SessionAgent;
use crate::transport::ShardLoad;

/// How long a node may take to say what its shards bear.
const PATIENCE: Duration = Duration::from_secs(1);

/// What every shard bears, as far as the leader knows.
#[derive(Default)]
pub(super) struct Loads {
    /// By shard. Of a node that does not answer, the last answer counts.
    known: Vec<Option<u64>>,
    /// What the plan goes by.
    told: Vec<u64>,
    asked_at: Option<Duration>,
}

impl Loads {
    /// Takes the answer of the node that holds `held`: what it does not name bears nothing.
    fn answered(&mut self, held: impl Iterator<Item = ShardId>, loads: Vec<ShardLoad>) {
        let idle = held.map(|shard| ShardLoad { shard, load: 0 });
        for ShardLoad { shard, load } in idle.chain(loads) {
            let at = usize::try_from(shard.as_raw()).unwrap_or(usize::MAX);
            if let Some(known) = self.known.get_mut(at) {
                *known = Some(load);
            }
        }
    }

    /// What nobody has told yet counts as much as others on average: a node that does not answer is
    /// not taken for idle.
    fn tell(&mut self) {
        let known = || self.known.iter().flatten();
        let sum: u128 = known().map(|load| u128::from(*load)).sum();
        let mean = sum.checked_div(known().count() as u128).unwrap_or_default();
        let mean = u64::try_from(mean).unwrap_or(u64::MAX);
        self.told = self.known.iter().map(|load| load.unwrap_or(mean)).collect();
    }
}

impl SessionAgent {
    /// What the plan goes by; none where shards count alike.
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
        if loads.asked_at.is_none_or(|at| now.saturating_sub(at) >= interval) {
            loads.asked_at = Some(now);
            loads.known.resize(config.sharding.num_shards.get() as usize, None);
            for (member, answer) in self.ask_for_loads(view).await {
                let held = view.held_by(&member.holder).map(|(shard, _)| shard);
                loads.answered(held, answer);
            }
            loads.tell();
        }
        Some(&loads.told)
    }

    /// The answers of all that give one.
    async fn ask_for_loads<'v>(&self, view: &'v ClusterView) -> Vec<(&'v Member, Vec<ShardLoad>)> {
        let own = &self.agent.address;
        let (this, others): (Vec<_>, Vec<_>) =
            view.members.iter().partition(|member| member.address() == own);
        let mut found: Vec<_> =
            this.into_iter().map(|member| (member, self.host.loads())).collect();
        let Some(router) = self.agent.router.upgrade() else { return found };
        let transport = router.transport();
        let ask = |member: &'v Member| async move {
            (member, transport.loads(member.address(), PATIENCE).await)
        };
        let mut asked: FuturesUnordered<_> = others.into_iter().map(ask).collect();
        while let Some((member, answer)) = asked.next().await {
            found.extend(answer.ok().map(|loads| (member, loads)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_never_answered_is_not_taken_for_idle() {
        let mut loads = Loads { known: vec![None; 5], ..Loads::default() };
        let load = |shard, load| ShardLoad { shard: ShardId::from_raw(shard), load };
        let held = [0, 1, 2].map(ShardId::from_raw);
        loads.answered(held.into_iter(), vec![load(0, 40), load(1, 20)]);
        loads.tell();
        assert_eq!(loads.told, [40, 20, 0, 20, 20]);
        loads.answered([ShardId::from_raw(3)].into_iter(), vec![load(3, 5)]);
        loads.tell();
        assert_eq!(loads.told, [40, 20, 0, 5, 16]);
    }
}
