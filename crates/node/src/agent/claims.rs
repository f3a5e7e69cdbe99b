use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use shardwright_cluster::ClaimError;
use shardwright_contracts::{FenceEpoch, ShardId};

use super::SessionAgent;
use super::work::{Done, tell};
use crate::locks::by_shard;
use crate::notices::Activity;

/// How long a shard is left alone whose claim failed for no reason of its own.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

impl SessionAgent {
    /// Claims shards, each under its lock: a call that comes early, because its sender heard of the
    /// claim before this node did, waits a moment instead of being refused. What became of one is
    /// told, and its lock given back, as soon as it is known.
    pub(super) fn claim(self, shards: Vec<ShardId>) -> BoxStream<'static, Done> {
        let claiming = async move {
            let locked = self.host.locks().acquire_write_multiple(shards.iter().copied()).await;
            let Ok(locks) = locked else {
                return stream::iter(shards.into_iter().map(Done::Settled)).left_stream();
            };
            let mut locks = by_shard(locks);
            let claimed = self.membership.claiming(shards).flat_map_unordered(None, move |some| {
                let (mut settled, mut failed) = (Vec::new(), Vec::new());
                for (shard, claimed) in some {
                    let told = if self.take(shard, claimed) { &mut settled } else { &mut failed };
                    told.push(Done::Settled(shard));
                    locks.remove(&shard);
                }
                tell(self.env(), settled, AFTER_FAILURE, failed)
            });
            claimed.right_stream()
        };
        claiming.flatten_stream().boxed()
    }

    /// Takes a shard that was claimed. Tells whether nothing went wrong.
    fn take(&self, shard: ShardId, claimed: Result<FenceEpoch, ClaimError>) -> bool {
        match (claimed, self.host.slot(shard)) {
            (Ok(fence), Ok(slot)) => slot.take(Some(fence)),
            // The cluster has changed since; what it says now is looked at next.
            (Err(ClaimError::Refused(_) | ClaimError::Over), _) | (Ok(_), Err(_)) => {}
            (Err(error), _) => {
                self.agent.notice_log.record(Activity::Claim, error);
                return false;
            }
        }
        true
    }
}
