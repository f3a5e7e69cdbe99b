use std::time::Duration;

use shardwright_contracts::{Env, ShardId};
use shardwright_engine::cluster::ClaimError;
use shardwright_placement::ObjectId;
use shardwright_store::Store;

use super::LifeOf;
use super::shards::Done;
use crate::chain::ObjectKey;

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
                Err(ClaimError::Store(_)) => failed = true,
                // The cluster has changed since; what it says now is looked at next.
                Err(_) => {}
            }
        }
        drop(locks);
        if failed {
            self.env().sleep(AFTER_FAILURE).await;
        }
        Done::Settled(shards)
    }

    /// Loads the objects of which there is one in every shard; tells the shard if that failed.
    pub(super) async fn load(self, shard: ShardId) -> Option<ShardId> {
        let options = &self.agent.options;
        for object in &options.auto_load {
            let id = format!("shard#{}/{}", shard.as_raw(), object.name);
            let Ok(id) = ObjectId::parse(&id) else { continue };
            let key = ObjectKey::new(object.object_type.clone(), id);
            if self.host.load(key, options.host.activation_max).await.is_err() {
                let interval = self.agent.cluster.config().shard_mapping_check_interval_ms;
                self.env().sleep(Duration::from_millis(interval)).await;
                return Some(shard);
            }
        }
        None
    }
}
