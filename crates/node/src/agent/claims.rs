use std::time::Duration;

use shardwright_contracts::{Env, ShardId};
use shardwright_engine::cluster::ClaimError;
use shardwright_store::Store;

use super::LifeOf;
use super::shards::Done;
use crate::notices::Trying;

/// How long a shard is left alone whose claim failed for no reason of its own.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

impl<S: Store, E: Env> LifeOf<S, E> {
    /// Claims shards, under their locks: a call that comes early, because its sender heard of the
    /// claim before this node did, waits a moment instead of being refused.
    pub(super) async fn claim(self, shards: Vec<ShardId>) -> Done {
        let Ok(locks) = self.host.locks().acquire_write_multiple(shards.iter().copied()).await
        else {
            return Done::Settled(shards);
        };
        let mut failed = false;
        for (shard, claimed) in self.membership.claim(&shards).await {
            let Ok(slot) = self.host.slot(shard) else { continue };
            match claimed {
                Ok(fence) => slot.take(Some(fence)),
                // The cluster has changed since; what it says now is looked at next.
                Err(ClaimError::Refused(_) | ClaimError::Over) => {}
                Err(error) => {
                    self.agent.teller.tell(Trying::Claim, error);
                    failed = true;
                }
            }
        }
        drop(locks);
        if failed {
            self.env().sleep(AFTER_FAILURE).await;
        }
        Done::Settled(shards)
    }
}
