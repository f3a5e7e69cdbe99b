use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shardwright_contracts::Env;
use shardwright_engine::cluster::ClusterView;
use shardwright_store::Store;

use super::LifeOf;
use crate::transport::ShardLoad;

/// How long a node may take to say what its shards bear.
const PATIENCE: Duration = Duration::from_secs(1);

/// What every shard bears, as far as the leader knows.
#[derive(Default)]
pub(super) struct Loads {
    /// By shard. Of a node that does not answer, the last answer counts.
    known: Vec<u64>,
    asked_at: Option<Duration>,
}

impl<S: Store, E: Env> LifeOf<S, E> {
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
            loads.known.resize(config.sharding.num_shards.get() as usize, 0);
            for ShardLoad { shard, load } in self.ask_for_loads(view).await {
                let at = usize::try_from(shard.as_raw()).unwrap_or(usize::MAX);
                if let Some(known) = loads.known.get_mut(at) {
                    *known = load;
                }
            }
        }
        Some(&loads.known)
    }

    async fn ask_for_loads(&self, view: &ClusterView) -> Vec<ShardLoad> {
        let mut found = self.host.loads();
        let Some(router) = self.agent.router.upgrade() else { return found };
        let own = &self.agent.address;
        let others = view.members.iter().map(|one| one.address()).filter(|one| *one != own);
        let mut asked: FuturesUnordered<_> =
            others.map(|node| router.transport().loads(node, PATIENCE)).collect();
        while let Some(answer) = asked.next().await {
            found.extend(answer.unwrap_or_default());
        }
        found
    }
}
